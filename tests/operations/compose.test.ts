// docker-compose.yml as its operator needs it: disks, restarts, passwords, memory, logs, probes,
// the profile for development and the way of alerts. No engine is needed: scripts of containers
// run in a shell of this machine.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { appCommands } from "../../infra/embedded/services/redis.ts";
import { appLogins } from "../../infra/postgres/logins.ts";
import { type Variable, variablesOf } from "../../infra/runtime/environment.ts";
import { folderOf, homeFolderOf } from "../../infra/runtime/metrics/disk-room.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { restartOf, wordsOf } from "../../modules/running/repair/restarts.ts";
import { composeWith, environmentIn, PASSWORD, type Service, scriptOf, writeSecrets } from "../support/compose.ts";

const compose = composeWith();
const services = Object.entries(compose.services);
const own = services.filter(([, { image }]) => image.startsWith("tributary:"));
const source = (file: string): string => readFileSync(file, "utf8");
const dockerfile = source("Dockerfile");
const secrets = mkdtempSync(join(tmpdir(), "tributary-secrets-"));
beforeAll(() => writeSecrets(secrets, Object.keys(compose.secrets)));
afterAll(() => rmSync(secrets, { recursive: true, force: true }));

/** Runs a script of a container on this machine, with its secrets. */
const run = (shell: string, script: string) =>
  spawnSync(shell, ["-ec", script.replaceAll("/run/secrets", secrets)], { encoding: "utf8" });
const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

describe("volumes", () => {
  /** The volume that a path of the container lies in: the one that is mounted nearest to it. */
  const volumeAt = ({ volumes = [] }: Service, path: string): string | undefined =>
    volumes
      .map((volume) => volume.split(":") as [string, string])
      .filter(([, at]) => `${path}/`.startsWith(`${at}/`))
      .toSorted(([, one], [, other]) => other.length - one.length)[0]?.[0];

  const edges = own.filter(([name]) => ["ingest", "ingest-standby", "links", "pixel", "upload"].includes(name));
  test.each(edges)(
    "%s keeps its spool apart from the last resort, which a full spool disk does not fill",
    (_, edge) => {
      const environment = environmentIn(secrets, edge);
      const spool = volumeAt(edge, homeFolderOf(environment));
      const objects = volumeAt(edge, folderOf(environment.OBJECT_STORE_URL!)!);
      expect([spool, objects].every((volume) => volume !== undefined)).toBe(true);
      expect(objects).toBe("objects");
      expect(spool).not.toBe(objects);
    },
  );

  test("every app has the object store, and two edges have two spools", () => {
    for (const [name, service] of own.filter(([name]) => name !== "setup"))
      expect(volumeAt(service, folderOf(String(service.environment!.OBJECT_STORE_URL))!), name).toBe("objects");
    const spoolOf = (name: string) => {
      const edge = compose.services[name]!;
      return volumeAt(edge, homeFolderOf(environmentIn(secrets, edge)));
    };
    expect([spoolOf("ingest"), spoolOf("ingest-standby")]).toEqual(["tributary", "standby"]);
  });

  test("each can be a folder on another disk", () => {
    const moved = composeWith({ OBJECTS_VOLUME: "/srv/a", STANDBY_VOLUME: "/srv/b", HOME_VOLUME: "/srv/c" });
    expect(moved.services["ingest-standby"]!.volumes!.map((one) => one.split(":")[0])).toEqual([
      "/srv/c",
      "/srv/a",
      "/srv/b",
    ]);
  });

  test("the image has each folder that a volume is mounted at, so that a new one belongs to its user", () => {
    const made = /^RUN mkdir -p (.*) && chown -R node:node/m.exec(dockerfile)![1]!.split(" ");
    const mounted = own.flatMap(([, { volumes = [] }]) => volumes.map((volume) => volume.split(":")[1]!));
    for (const at of new Set(mounted))
      expect(
        made.some((path) => `${path}/`.startsWith(`${at}/`)),
        at,
      ).toBe(true);
  });
});

describe("a restart by the keeper", () => {
  const page = source("docs/compose.md");
  const folder = /^RESTARTS_VOLUME=(\S+)$/m.exec(page)?.[1];
  const command = /^RESTART_COMMAND='(.*)'$/m.exec(page)?.[1];
  const mounted = compose.services.keeper!.volumes!.find((volume) => volume.startsWith("restarts:"))?.split(":")[1];

  test("is asked of the host by a file: the page, the volume and the units name the same place", () => {
    expect(command).toContain("cd $TRIBUTARY_HOME/restarts ");
    expect(mounted).toBe(`${compose.services.keeper!.environment!.TRIBUTARY_HOME}/restarts`);
    const path = source("ops/systemd/tributary-restart@.path");
    const unit = source("ops/systemd/tributary-restart@.service");
    expect(path).toContain(`PathExists=${folder}/%i\n`);
    expect(unit).toContain(`ExecStopPost=rm -f ${folder}/%i\n`);
    expect(unit).toContain("ExecStart=docker compose restart %i\n");
    for (const service of ["clickhouse", "redis", "kafka"]) {
      expect(path).toContain(`tributary-restart@${service}.path`);
      expect(compose.services).toHaveProperty(service);
    }
  });

  test("ends when the host has taken the request away", async () => {
    const place = mkdtempSync(join(tmpdir(), "tributary-restarts-"));
    const restart = restartOf("cache_store", {
      command: command!.replace("$TRIBUTARY_HOME/restarts", place),
      log: { info: () => undefined, warn: () => undefined },
    })!;
    let isDone = false;
    const done = restart().then(() => {
      isDone = true;
    });
    await expect.poll(() => existsSync(join(place, "redis"))).toBe(true);
    expect(isDone).toBe(false);
    rmSync(join(place, "redis"));
    await done;
    rmSync(place, { recursive: true });
  });

  test("needs no program that the image lacks, and no container reaches the engine", () => {
    expect(wordsOf(command!, "redis")[0]).toBe("sh");
    for (const [name, { volumes = [] }] of services) expect(volumes.join(), name).not.toContain("docker.sock");
  });
});

describe("the profile dev", () => {
  const inProfile = (profile: string) =>
    services.filter(([, { profiles }]) => profiles?.includes(profile)).map(([name]) => name);
  const { "api-dev": api, api: production, identity, mail } = compose.services;

  test("has every process of the profile app, with another platform API in its place", () => {
    const others = inProfile("app").filter((name) => name !== "api");
    expect(inProfile("dev").filter((name) => inProfile("app").includes(name))).toEqual(others);
    expect(inProfile("dev").filter((name) => !others.includes(name))).toEqual([
      "api-dev",
      "identity",
      "mail",
      "kafka-ui",
    ]);
    expect(api!.networks).toEqual({ default: { aliases: ["api"] } });
    const { OIDC_ISSUER, SMTP_URL, SMTP_PASSWORD_FILE, ...rest } = api!.environment!;
    expect(SMTP_PASSWORD_FILE).toBe("");
    expect({ ...production!.environment, ...rest }).toEqual(production!.environment);
    expect(api!.command).toEqual(production!.command);
  });

  test("signs people in at a provider that API and browsers know by one address of the loopback", () => {
    const issuer = new URL(String(api!.environment!.OIDC_ISSUER));
    expect(issuer.origin).toBe(`http://127.0.0.1:${identity!.environment!.PORT}`);
    expect(identity!.network_mode).toBe("service:api-dev");
    expect(api!.ports).toContain(`127.0.0.1:${issuer.port}:${issuer.port}`);
    const moved = composeWith({ IDENTITY_PORT: "9999" }).services;
    expect([moved.identity!.environment!.PORT, moved["api-dev"]!.environment!.OIDC_ISSUER]).toEqual([
      9999,
      "http://127.0.0.1:9999",
    ]);
  });

  test("catches mails where plain text is allowed", () => {
    expect(new URL(String(api!.environment!.SMTP_URL)).host).toBe("127.0.0.1:1025");
    expect(mail!.network_mode).toBe("service:api-dev");
    expect(api!.ports).toContain("127.0.0.1:8025:8025");
  });

  test("alone has the provider: the profile app has the operator's, and its image has none", () => {
    expect(production!.environment!.OIDC_ISSUER).toBe("");
    expect(identity!.build!.target).toBe("dev");
    expect(dockerfile).toMatch(/^FROM compiled AS dev$[\s\S]*^CMD \["identity"\]$[\s\S]*^FROM \$\{NODE\}$/m);
  });
});

describe("Alertmanager", () => {
  const { command, entrypoint } = compose.services.alertmanager!;
  const started = (environment: Readonly<Record<string, string>>) =>
    spawnSync(
      entrypoint![0]!,
      [...entrypoint!.slice(1), scriptOf(command!).replace("exec /bin/alertmanager", "echo")],
      {
        encoding: "utf8",
        env: { PATH: process.env.PATH, ...environment },
      },
    );

  test.each([{}, { ALERT_TO: "a@shop.example" }, { ALERT_SMARTHOST: "mail.example:587", ALERT_TO: "" }])(
    "does not start without a receiver, and says which settings are missing: %j",
    (environment) => {
      const { status, stderr } = started(environment);
      expect(status).toBe(1);
      expect(stderr).toContain("set ALERT_TO and ALERT_SMARTHOST");
    },
  );

  test("starts with one", () => {
    const { status, stdout } = started({ ALERT_TO: "a@shop.example", ALERT_SMARTHOST: "mail.example:587" });
    expect([status, stdout]).toEqual([
      0,
      "--config.file=/etc/alertmanager/alertmanager.yml --storage.path=/alertmanager\n",
    ]);
  });

  test("is scraped, so that a rule says that mails fail, and the page has a test alert", () => {
    const jobs = parse(source("ops/prometheus/prometheus.yml")).scrape_configs;
    const { static_configs } = jobs.find(({ job_name }: { job_name: string }) => job_name === "alertmanager");
    expect(static_configs).toEqual([{ targets: ["alertmanager:9093"] }]);
    expect(source("docs/operate.md")).toContain("amtool alert add");
  });
});

describe("every service", () => {
  const MiB = (size: string): number => Number.parseInt(size, 10) * (size.endsWith("g") ? 1024 : 1);
  const limitOf = (name: string): number => MiB(compose.services[name]!.mem_limit ?? "");

  test.each(services)("%s rotates its logs and has a bound of memory", (_, { logging, mem_limit: limit }) => {
    expect(logging).toEqual({ driver: "json-file", options: { "max-size": "20m", "max-file": "3" } });
    expect(limit).toMatch(/^\d+[mg]$/);
  });

  test("a JVM has a third more than its heap, at least 256 MiB", () => {
    for (const [name, variable] of [
      ["kafka", "KAFKA_HEAP_OPTS"],
      ["registry", "SCHEMA_REGISTRY_HEAP_OPTS"],
      ["kafka-ui", "JAVA_OPTS"],
    ] as const) {
      const heap = MiB(/-Xmx(\d+[mg])/.exec(String(compose.services[name]!.environment![variable]))![1]!);
      expect(limitOf(name), name).toBeGreaterThanOrEqual(Math.max(heap * 1.33, heap + 256));
    }
  });

  test("ClickHouse and Redis end a statement before the kernel ends them", () => {
    const [, most] = /<max_server_memory_usage>(\d+)</.exec(compose.configs.clickhouse!.content)!;
    expect(limitOf("clickhouse") * 1024 ** 2).toBeGreaterThanOrEqual(Number(most) * 1.2);
    const [, redis] = /^maxmemory (\d+)mb$/m.exec(compose.configs.redis!.content)!;
    expect(limitOf("redis")).toBeGreaterThanOrEqual(Number(redis) * 1.4);
  });

  test("an app has what its heaps may take, and more than the alert about a heavy process", () => {
    const optionsOf = (words: readonly string[]) => new Map(words.map((word) => word.split("=") as [string, string]));
    const ofImage: string[] = JSON.parse(
      /^ENTRYPOINT (\["node", "--max-old.*\])$/m.exec(dockerfile.slice(dockerfile.lastIndexOf("\nFROM")))![1]!,
    );
    const heavy = Number(/process_resident_memory_bytes\{.*\} > (\d+)/.exec(source("ops/prometheus/alerts.yml"))![1]);
    for (const { name, nodeArgs = [] } of apps) {
      const options = optionsOf([...ofImage, ...nodeArgs]);
      const heap = Number(options.get("--max-old-space-size")) + 3 * Number(options.get("--max-semi-space-size"));
      expect(limitOf(name), name).toBeGreaterThanOrEqual(heap);
      expect(limitOf(name) * 1024 ** 2, name).toBeGreaterThan(heavy);
    }
  });
});

describe("passwords", () => {
  test("come from a file each, that has a default here but for the secret of Tributary", () => {
    expect(readdirSync("ops/secrets").toSorted()).toEqual(Object.keys(compose.secrets).toSorted());
    const moved = composeWith({ SECRETS_FOLDER: "/srv/secrets" });
    for (const [name, { file }] of Object.entries(compose.secrets)) {
      expect(file).toBe(`./ops/secrets/${name}`);
      expect(moved.secrets[name]!.file).toBe(`/srv/secrets/${name}`);
    }
    expect(source("ops/secrets/tributary")).toBe("");
  });

  test("are in no environment and no configuration, and each service has the files that it names", () => {
    // The login of scripts at a provider that asks people for no password.
    const { LOGIN_SECRET, ...rest } = compose.services.identity!.environment!;
    const all = { ...compose.services, identity: { ...compose.services.identity!, environment: rest } };
    for (const [name, { configs = [], secrets: listed = [], ...service }] of Object.entries(all)) {
      const content = configs.map(({ source: config }) => compose.configs[config]!.content).join();
      const text = JSON.stringify(service) + content;
      expect(text, name).not.toMatch(/loopback-only|PASSWORD:|password '/);
      for (const [variable, value] of Object.entries(service.environment ?? {})) {
        if (/PASS(WORD)?$|SECRET$/.test(variable)) expect([name, variable]).toEqual([]);
        if (/_URL$/.test(variable) && URL.canParse(String(value))) expect(new URL(String(value)).password).toBe("");
      }
      const named = [...text.matchAll(/\/run\/secrets\/([a-z-]+)|\$\$\(hash ([a-z]+-[a-z]+)\)/g)].map(
        ([, one, two]) => one ?? two,
      );
      expect([...new Set(named)].toSorted(), name).toEqual(listed.toSorted());
    }
    expect(source("docker-compose.yml")).not.toMatch(/\$\{\w*(PASSWORD|SECRET(?!S_FOLDER))\w*:-/);
  });

  test("are read by the images in the way that they know", () => {
    const of = (name: string): readonly string[] => Object.keys(compose.services[name]!.environment!);
    expect(of("postgres")).toContain("POSTGRES_PASSWORD_FILE");
    expect(of("postgres-exporter")).toContain("DATA_SOURCE_PASS_FILE");
    expect(of("grafana")).toContain("GF_SECURITY_ADMIN_PASSWORD__FILE");
    expect(compose.configs.alertmanager!.content).toContain("smtp_auth_password_file: /run/secrets/alert-mail\n");
  });

  test("of logins are read and quoted by psql", () => {
    const { content } = compose.configs["postgres-logins"]!;
    for (const { role } of Object.values(appLogins)) {
      const name = role.replace("tributary_app_", "");
      expect(content).toContain(`\\set ${name} \`cat /run/secrets/postgres-${name}\`\n`);
      expect(content).toContain(`create role ${role} login password :'${name}';\n`);
    }
  });

  test("of Redis may have any character: its users have hashes", () => {
    const { entrypoint, command } = compose.services.redis!;
    const file = join(secrets, "users.conf");
    const script = scriptOf(command!)
      .replace("/tmp/users.conf", file)
      .replace(/^exec .*$/m, "");
    expect(run(entrypoint![0]!, script)).toMatchObject({ status: 0, stderr: "" });
    const users = source(file)
      .trim()
      .split("\n")
      .map((line) => line.split(" "));
    expect(users.map(([, name, ...rest]) => [name, ...rest.slice(0, 2)])).toEqual([
      ["tributary_owner", "on", `#${sha256(PASSWORD)}`],
      ["tributary_app", "on", `#${sha256(PASSWORD)}`],
    ]);
    expect(users[1]!.slice(users[1]!.indexOf("+@all") + 1)).toEqual(appCommands);
    expect(compose.configs.redis!.content).toContain("user default off\ninclude /tmp/users.conf\n");
  });

  test("of ClickHouse may have any character: XML has their hashes", () => {
    const { entrypoint, command, environment } = compose.services.clickhouse!;
    const script = scriptOf(command!).replace(
      "exec /entrypoint.sh",
      'printf "%s\\n" "$OWNER_SHA256" "$APP_SHA256" "$CLICKHOUSE_PASSWORD"',
    );
    expect(run(entrypoint![0]!, script).stdout).toBe(`${sha256(PASSWORD)}\n${sha256(PASSWORD)}\n${PASSWORD}\n`);
    expect(environment!.CLICKHOUSE_SKIP_USER_SETUP).toBe(1);
    const { content } = compose.configs["clickhouse-users"]!;
    expect(content).toContain('<default remove="remove"/>');
    expect(
      [...content.matchAll(/<(tributary_\w+)>\s*<password_sha256_hex from_env="(\w+)"\/>/g)].map(([, ...one]) => one),
    ).toEqual([
      ["tributary_owner", "OWNER_SHA256"],
      ["tributary_app", "APP_SHA256"],
    ]);
  });
});

describe("probes", () => {
  const probed = services.flatMap(([name, { healthcheck }]) =>
    healthcheck?.test ? [[name, healthcheck] as const] : [],
  );
  /** Of a process that the engine starts in a container, whatever it does then. */
  const PROBE_SECONDS = 0.05;
  const secondsOf = (text: string): number => Number.parseInt(text, 10) * (text.endsWith("m") ? 60 : 1);
  const ofImage = Object.fromEntries(
    [.../^HEALTHCHECK (.*) CMD /m.exec(dockerfile)![1]!.matchAll(/--([\w-]+)=(\S+)/g)].map(([, key, value]) => [
      key!.replaceAll("-", "_"),
      value!,
    ]),
  );

  test("take less than 1 % of a core together, once everything runs", () => {
    const intervals = [
      ...probed.map(([, { interval }]) => interval!),
      ...own.filter(([name]) => name !== "setup").map(() => ofImage.interval!),
    ];
    expect(intervals.length).toBeGreaterThan(20);
    const share = intervals.reduce((sum, interval) => sum + PROBE_SECONDS / secondsOf(interval), 0);
    expect(share).toBeLessThan(0.01);
  });

  test("come often while a service starts, and apps have the same", () => {
    const { test: _, ...kafka } = compose.services.kafka!.healthcheck!;
    for (const [name, { test: __, ...times }] of probed) expect(times, name).toEqual(kafka);
    expect({ ...ofImage, retries: Number(ofImage.retries) }).toEqual(kafka);
    expect(kafka.start_interval).toBe("2s");
  });

  test("start neither Node nor a JVM", () => {
    for (const [name, { test: words }] of probed) {
      const [kind, program] = words!;
      expect(["CMD", "CMD-SHELL"], name).toContain(kind);
      if (kind === "CMD") expect(["wget", "curl", "bash", "pg_isready"], name).toContain(program);
      expect(words!.join(" "), name).not.toMatch(/kafka-[\w-]+\.sh|java|\bnode\b/);
    }
    expect(dockerfile).toMatch(/^HEALTHCHECK .* CMD \["bash", "scripts\/healthy\.sh"\]$/m);
  });

  /** Answers with these bytes once a whole request has come; a shell sends one line at a time. */
  const answering = (bytes: Buffer, takes: Buffer[] = []): Promise<Server> =>
    new Promise((resolve) => {
      const server = createServer((socket) => {
        let sent = Buffer.alloc(0);
        socket.on("error", () => undefined);
        socket.on("data", (part) => {
          sent = Buffer.concat([sent, part]);
          if (sent.length < 14) return;
          takes.push(sent);
          socket.end(bytes);
        });
      }).listen(0, "127.0.0.1", () => resolve(server));
    });
  const exitOf = (name: string, from: string | RegExp, server: Server): Promise<number | null> =>
    new Promise((resolve) => {
      const script = scriptOf(compose.services[name]!.healthcheck!.test!);
      const { port } = server.address() as { readonly port: number };
      spawn("bash", ["-ec", script.replace(from, String(port))]).once("exit", resolve);
    });

  test("ask the broker a question of Kafka's protocol, and it must answer", async () => {
    const takes: Buffer[] = [];
    const broker = await answering(Buffer.from("0000000a0000000100000000", "hex"), takes);
    const silent = await answering(Buffer.alloc(0));
    expect(await exitOf("kafka", "19092", broker)).toBe(0);
    // Its size, then ApiVersions 0 with the correlation id 1 and no client id.
    expect(takes[0]!.toString("hex")).toBe("0000000a0012000000000001ffff");
    expect(await exitOf("kafka", "19092", silent)).not.toBe(0);
    silent.close();
    broker.close();
  });

  test("ask the provider for its page", async () => {
    const well = await answering(Buffer.from("HTTP/1.1 200 OK\r\n\r\n"));
    const ill = await answering(Buffer.from("HTTP/1.1 403 Forbidden\r\n\r\n"));
    expect(await exitOf("identity", "$PORT", well)).toBe(0);
    expect(await exitOf("identity", "$PORT", ill)).not.toBe(0);
    well.close();
    ill.close();
  });
});

test("an app has the secrets of the addresses that it reads", () => {
  const secretOf: Partial<Record<Variable, string>> = {
    ...{ TRIBUTARY_SECRET: "tributary", OBJECT_STORE_URL: "object-store", SMTP_URL: "smtp" },
    ...{ CLICKHOUSE_URL: "clickhouse-app", REDIS_URL: "redis-app" },
  };
  for (const { name, module, login } of apps) {
    const read = variablesOf[basename(join(module, "..")) as keyof typeof variablesOf];
    const expected = read.flatMap((variable) => secretOf[variable] ?? []);
    expect(compose.services[name]!.secrets, name).toEqual([...expected, `postgres-${login}`].toSorted());
  }
});
