// `npm start -- --observe`: what it hands to Prometheus and Grafana, which programs of other people
// stand in for here: they read their files and ask what these name, as the real ones do.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterAll, expect, test } from "vitest";
import type { App } from "../../infra/embedded/app.ts";
import { observe } from "../../tools/stack/observe.ts";
import { workshop } from "./home-for-test.ts";

const here = workshop();
const programs = mkdtempSync(join(tmpdir(), "tributary-programs-"));
afterAll(async () => {
  await here.clear();
  rmSync(programs, { recursive: true, force: true });
});
const app: App = { name: "ingest", module: "../tests/stack/app-for-test.mjs" };
const path = ["bin", "grafana/bin"].map((folder) => join(programs, folder)).join(delimiter);

const program = (file: string, text: string): void => {
  mkdirSync(dirname(join(programs, file)), { recursive: true });
  writeFileSync(join(programs, file), `#!${process.execPath}\n${text}`, { mode: 0o755 });
};
const SCRAPES = `
const { createServer } = process.getBuiltinModule("node:http");
const { existsSync, readFileSync } = process.getBuiltinModule("node:fs");
const given = Object.fromEntries(process.argv.slice(2).map((one) => one.split(/=(.*)/s)));
const { rule_files, scrape_configs: [job] } = JSON.parse(readFileSync(given["--config.file"], "utf8"));
const [host, port] = given["--web.listen-address"].split(":");
createServer(async ({ url }, answer) => {
  if (url === "/-/ready") return answer.end();
  const targets = job.static_configs.flatMap(({ targets }) => targets);
  const up = await Promise.all(targets.map((one) => fetch("http://" + one + "/metrics").then(({ ok }) => ok)));
  answer.end(JSON.stringify({ targets: targets.length, up, rules: rule_files.map((file) => existsSync(file)) }));
}).listen(Number(port), host);`;
const SHOWS = `
const { createServer } = process.getBuiltinModule("node:http");
const { existsSync, readFileSync } = process.getBuiltinModule("node:fs");
const env = process.env;
const read = (file) => JSON.parse(readFileSync(env.GF_PATHS_PROVISIONING + "/" + file + "/tributary.yaml", "utf8"));
createServer(async ({ url }, answer) => {
  if (url === "/api/health") return answer.end();
  const { datasources: [source] } = read("datasources");
  const { ok } = await fetch(source.url + "/-/ready");
  const [{ options }] = read("dashboards").providers;
  const uids = new Set(JSON.stringify(JSON.parse(readFileSync(env.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH, "utf8")))
    .match(/"type":"prometheus","uid":"\\w+"/g));
  answer.end(JSON.stringify({ args: process.argv.slice(2), ok, source: source.uid, uids: [...uids],
    folder: existsSync(options.path), secret: env.TRIBUTARY_SECRET }));
}).listen(Number(env.GF_SERVER_HTTP_PORT), env.GF_SERVER_HTTP_ADDR);`;

test("says how to get a program that is not there, and starts nothing", async () => {
  const stack = await here.start({ services: [], apps: [app] });
  const said: string[] = [];
  await observe(stack, path, (text) => said.push(text));
  expect(said).toEqual([
    expect.stringMatching(/no prometheus is on the PATH.*prometheus\.io\/download.*--profile obs/),
  ]);
  program("bin/prometheus", SCRAPES);
  await observe(stack, path, (text) => said.push(text));
  expect(said.slice(1)).toEqual([
    expect.stringMatching(/^Prometheus answers on http:\/\/127\.0\.0\.1:\d+\.$/),
    expect.stringMatching(/no grafana is on the PATH.*grafana\.com/),
  ]);
  await stack.stop();
});

test("Prometheus asks every app, Grafana asks Prometheus, and both end with the stack", async () => {
  program("bin/prometheus", SCRAPES);
  program("grafana/bin/grafana", SHOWS);
  mkdirSync(join(programs, "grafana", "conf"), { recursive: true });
  writeFileSync(join(programs, "grafana", "conf", "defaults.ini"), "");
  const stack = await here.start({ services: [], apps: [app, { ...app, name: "api" }] });
  const said: string[] = [];
  await observe(stack, path, (text) => said.push(text));
  const [prometheus, grafana] = said.map((text) => /http:\S+(?=\.$)/.exec(text)![0]);
  const asked = async (url: string) => (await fetch(`${url}/asked`)).json();
  expect(await asked(prometheus!)).toEqual({ targets: 2, up: [true, true], rules: [true] });
  expect(await asked(grafana!)).toEqual({
    args: ["server", `--homepath=${join(programs, "grafana")}`],
    ...{ ok: true, source: "prometheus", uids: ['"type":"prometheus","uid":"prometheus"'], folder: true },
  });
  const pids = ["prometheus", "grafana"].map((name) => stack.pid(name)!);
  await stack.stop();
  for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow("ESRCH");
});
