// `npm start -- --observe`: Prometheus and Grafana of this machine on the metrics of this stack,
// with the alerts and the dashboard of ops/. They start and stop with the stack.
import { existsSync, mkdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { parse } from "yaml";
import { openHome, writeJson } from "../../infra/embedded/home.ts";
import { answersHttp } from "../../infra/embedded/http-health.ts";
import type { Charge } from "../../infra/embedded/keep-running.ts";
import type { Run, Stack } from "../../infra/embedded/supervisor.ts";

const READY_MS = 60_000;
const STOP_MS = 10_000;
const KEPT = "7d";

const howTo = (program: string, page: string): string =>
  `--observe: no ${program} is on the PATH. Install it (${page}) and start again; with containers: ` +
  "docker compose --profile app --profile obs up.";

/** The first of these names that a folder of the PATH has, without links. */
const programOf = (path: string, names: readonly string[]): string | undefined => {
  const files = names.flatMap((name) => path.split(delimiter).map((folder) => join(resolve(folder), name)));
  const found = files.find((file) => statSync(file, { throwIfNoEntry: false })?.isFile());
  return found === undefined ? undefined : realpathSync(found);
};

/** What compose gives Prometheus (ops/prometheus), on the side ports of the apps that run here. */
const prometheusConfig = (root: string, apps: Run["apps"]) => {
  const ofCompose = parse(readFileSync(join(root, "ops", "prometheus", "prometheus.yml"), "utf8"));
  const urls = Object.values(apps).map(({ ops_url: url }) => new URL(url));
  const isSecure = urls.some(({ protocol }) => protocol === "https:");
  return {
    global: ofCompose.global,
    rule_files: [join(root, "ops", "prometheus", "alerts.yml")],
    scrape_configs: [
      {
        job_name: "tributary",
        // Our own processes, asked on the loopback: their certificate bears the name of others.
        ...(isSecure && { scheme: "https", tls_config: { insecure_skip_verify: true } }),
        static_configs: [{ targets: urls.map(({ host }) => host) }],
      },
    ],
  };
};

const charge = (stack: Stack, name: string, rest: Pick<Charge, "command" | "healthy" | "env">): Charge => ({
  ...{ name, ...rest, log: openHome(stack.home).path("logs", `${name}.log`), prepare: async () => undefined },
  ...{ readyWithinMs: READY_MS, stopSignal: "SIGTERM", stopWithinMs: STOP_MS },
});

const prometheusOf = (stack: Stack, file: string, folder: string, port: number): Charge => {
  const config = join(folder, "prometheus.yml");
  // JSON is YAML.
  writeJson(config, prometheusConfig(openHome(stack.home).root, stack.run.apps));
  const args = [
    `--config.file=${config}`,
    `--storage.tsdb.path=${join(folder, "prometheus")}`,
    `--storage.tsdb.retention.time=${KEPT}`,
    `--web.listen-address=127.0.0.1:${port}`,
  ];
  return charge(stack, "prometheus", {
    command: () => ({ file, args }),
    healthy: () => answersHttp(`http://127.0.0.1:${port}/-/ready`),
    env: () => ({}),
  });
};

/** Of an archive its own folder, of a package /usr/share/grafana. */
const grafanaFolder = (file: string): string =>
  [dirname(dirname(file)), "/usr/share/grafana"].find((folder) => existsSync(join(folder, "conf", "defaults.ini"))) ??
  dirname(dirname(file));

const grafanaOf = (stack: Stack, file: string, folder: string, ports: { own: number; prometheus: number }): Charge => {
  const url = `http://127.0.0.1:${ports.prometheus}`;
  const provisioning = join(folder, "provisioning");
  const dashboards = join(openHome(stack.home).root, "ops", "grafana");
  for (const kind of ["datasources", "dashboards"]) mkdirSync(join(provisioning, kind), { recursive: true });
  writeJson(join(provisioning, "datasources", "tributary.yaml"), {
    apiVersion: 1,
    datasources: [{ name: "Prometheus", uid: "prometheus", type: "prometheus", url, isDefault: true }],
  });
  writeJson(join(provisioning, "dashboards", "tributary.yaml"), {
    apiVersion: 1,
    providers: [{ name: "tributary", type: "file", options: { path: dashboards } }],
  });
  return charge(stack, "grafana", {
    command: () => ({
      file,
      args: [...(file.endsWith("grafana") ? ["server"] : []), `--homepath=${grafanaFolder(file)}`],
    }),
    healthy: () => answersHttp(`http://127.0.0.1:${ports.own}/api/health`),
    env: () => ({
      GF_SERVER_HTTP_ADDR: "127.0.0.1",
      GF_SERVER_HTTP_PORT: String(ports.own),
      GF_PATHS_DATA: join(folder, "grafana"),
      GF_PATHS_LOGS: join(folder, "grafana"),
      GF_PATHS_PROVISIONING: provisioning,
      GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH: join(dashboards, "tributary.json"),
      // A viewer needs no password here, and no other login is there to be guessed.
      GF_AUTH_ANONYMOUS_ENABLED: "true",
      GF_AUTH_ANONYMOUS_ORG_ROLE: "Viewer",
      GF_AUTH_BASIC_ENABLED: "false",
      GF_AUTH_DISABLE_LOGIN_FORM: "true",
      GF_ANALYTICS_REPORTING_ENABLED: "false",
      GF_ANALYTICS_CHECK_FOR_UPDATES: "false",
    }),
  });
};

/** Starts what this machine has of them; `tell` hears where each answers, or how to get it. */
export const observe = async (stack: Stack, path: string, tell: (text: string) => void): Promise<void> => {
  const prometheus = programOf(path, ["prometheus"]);
  const grafana = programOf(path, ["grafana", "grafana-server"]);
  if (prometheus === undefined) return tell(howTo("prometheus", "https://prometheus.io/download"));
  const folder = openHome(stack.home).path("observe");
  mkdirSync(folder, { recursive: true });
  const answers = (name: string, port: number): void => tell(`${name} answers on http://127.0.0.1:${port}.`);
  const scraped = await stack.add("prometheus", (port) => prometheusOf(stack, prometheus, folder, port));
  answers("Prometheus", scraped);
  if (grafana === undefined) return tell(howTo("grafana", "https://grafana.com/grafana/download"));
  const ports = (own: number) => ({ own, prometheus: scraped });
  answers("Grafana", await stack.add("grafana", (own) => grafanaOf(stack, grafana, folder, ports(own))));
};
