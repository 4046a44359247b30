// The doctor reports processes that a killed `npm start` has left behind, and proxies that let
// senders say who they are.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openHome } from "../../infra/embedded/home.ts";
import { startOf } from "../../infra/runtime/lock.ts";
import { doctor } from "../../modules/running/installation/doctor.ts";
import { ownConfig } from "../stack/home-for-test.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-doctor-"));
const servers: Server[] = [];
let orphan: ChildProcess;
const portOf = (server: Server): number => (server.address() as { port: number }).port;
const listening = async (): Promise<number> => {
  const server = createServer();
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return portOf(server);
};
const keep = (file: string, value: unknown): void => writeFileSync(join(folder, file), JSON.stringify(value));
const finding = async (name: string) =>
  (await doctor(openHome(folder), ownConfig())).find((check) => check.name === name)!;

beforeAll(async () => {
  orphan = spawn(process.execPath, ["-e", "setInterval(() => undefined, 1_000)"], { stdio: "ignore" });
  await new Promise((resolve) => orphan.once("spawn", resolve));
  const [redis, controller, mail] = [await listening(), await listening(), await listening()];
  keep("ports.json", { redis, kafkaController: controller, mail });
  keep("run.json", { ready: true, services: {}, apps: {} });
  keep("lock.json", { pid: orphan.pid, started: "another process of this number" });
});
afterAll(() => {
  orphan.kill();
  for (const server of servers) server.close();
  rmSync(folder, { recursive: true });
});
const left = (...names: readonly string[]): void =>
  keep(
    "children.json",
    names.map((name) => ({ name, pid: orphan.pid, started: startOf(orphan.pid!) })),
  );

test("they are named, and their ports are not another program's", async () => {
  left("redis", "kafka", "mail");
  expect(await finding("stack")).toMatchObject({
    ok: false,
    detail:
      `its starter is gone, and what it started still runs: mail (process ${orphan.pid}), kafka (process ` +
      `${orphan.pid}), redis (process ${orphan.pid})`,
    cure: "npm start ends them, keeps the data and starts again",
  });
  expect(await finding("ports")).toMatchObject({ ok: true, detail: "3 chosen, none of another program" });
});

test("a port that none of them has is another program's", async () => {
  left("redis", "kafka");
  expect(await finding("ports")).toMatchObject({
    ok: false,
    detail: expect.stringMatching(/^used by other programs: mail \d+$/),
  });
});

describe("the proxies that the hosts believe", () => {
  const proxies = async (environment: Readonly<Record<string, string>>) => {
    const config = ownConfig();
    const inherited = { ...config.inherited, TRUSTED_PROXIES: "", TLS_CERT_FILE: "", PIXEL_URL: "", ...environment };
    return (await doctor(openHome(folder), { ...config, inherited })).find(({ name }) => name === "proxies")!;
  };
  const cure = "name the addresses of your proxies alone, e.g. TRUSTED_PROXIES=10.0.0.7,10.0.0.8";

  test.each(["", "10.0.0.7", "loopback,10.0.0.0/8", "203.0.113.7,203.0.113.0/24"])("may be %j", async (list) => {
    expect(await proxies({ TRUSTED_PROXIES: list })).toMatchObject({ ok: true });
  });
  test.each(["0.0.0.0/0", "::/0", "everyone"])("are not %s, with which no host starts", async (list) => {
    const detail = expect.stringMatching(/^TRUSTED_PROXIES must be addresses .* no host starts/);
    expect(await proxies({ TRUSTED_PROXIES: list })).toMatchObject({ ok: false, detail, cure });
  });
  test("are not whole networks of strangers", async () => {
    expect(await proxies({ TRUSTED_PROXIES: "10.0.0.7,13.0.0.0/8,2600::/12" })).toMatchObject({
      ok: false,
      detail: "13.0.0.0/8, 2600::/12 of TRUSTED_PROXIES: any sender in there is believed to be whom it says",
      cure,
    });
  });
  test("are named where one ends TLS in front of the hosts", async () => {
    const published = { PIXEL_URL: "https://px.shop.example" };
    expect(await proxies(published)).toMatchObject({
      ok: false,
      detail: "the hosts are behind a proxy that ends TLS, and TRUSTED_PROXIES is empty: all senders share its address",
      cure,
    });
    expect(await proxies({ ...published, TRUSTED_PROXIES: "10.0.0.7" })).toMatchObject({ ok: true });
    expect(await proxies({ ...published, TLS_CERT_FILE: "tls.crt" })).toMatchObject({ ok: true });
    expect(await proxies({ PIXEL_URL: "http://127.0.0.1:8083" })).toMatchObject({ ok: true });
  });
});
