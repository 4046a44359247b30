// The pixel host on real servers: accepted events reach the log, also after the log hung, and after
// the process was killed meanwhile.
import type { ChildProcess } from "node:child_process";
import { afterEach, expect, test } from "vitest";
import { openPool, transaction } from "../../../infra/postgres/sql.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import { readPixelConfig, savePixelConfig } from "../../../modules/catalog/pixel/pixel-config.ts";
import { readSightings } from "../../../modules/catalog/pixel/sightings.ts";
import { root, spawned } from "../../support/e2e-product.ts";
import { addedToLog, freePort, pidOf, whileFrozen } from "../../support/ingest.ts";
import { sharedStack } from "../../support/shared-stack.ts";

const stack = sharedStack();
const client = stack.demo.clients[0].id as number;
const [port, opsPort] = [await freePort(), await freePort()];
const url = `http://127.0.0.1:${port}`;
let child: ChildProcess | undefined;

const isReady = async (): Promise<void> => {
  const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`);
  if (!answer.ok) throw new Error(await answer.text());
};
const start = (): void => {
  child = spawned([`${root}/dist/apps/pixel/main.js`], {
    ...process.env,
    ...stack.env,
    PORT: String(port),
    OPS_PORT: String(opsPort),
    INSTANCE_NAME: "pixel-test",
  }).child;
};
const kill = (signal: NodeJS.Signals): Promise<void> =>
  new Promise((resolve) => {
    child!.once("exit", () => resolve());
    child!.kill(signal);
  });
afterEach(async () => {
  if (child?.exitCode === null && child.signalCode === null) await kill("SIGTERM");
});

const send = async (id: string, origin?: string): Promise<number> => {
  const events = [{ t: "page_view", ts: Date.now(), url: "https://shop.example/", event_id: id }];
  const headers = origin === undefined ? undefined : { origin };
  const body = JSON.stringify({ cid: client, did: `device of ${id}`, events });
  return (await fetch(`${url}/e`, { method: "POST", body, ...(headers && { headers }) })).status;
};
const idsIn = (name: string, count: number) => Array.from({ length: count }, (_, n) => `${name}-${n}`);

test("a page's events are in the log, and a list of domains that is saved holds within seconds", async () => {
  start();
  await until("it is ready", 20_000, isReady);
  const pool = openPool(stack.env.POSTGRES_URL!, { max: 1 });
  const inTenant = <T>(work: Parameters<typeof transaction<T>>[2]) => transaction(pool, [client], work);
  const before = (await inTenant((tx) => readPixelConfig(tx, client, [client])))!;
  const save = (allowed_domains: readonly string[]) =>
    inTenant((tx) => savePixelConfig(tx, client, { ...before, allowed_domains }));
  try {
    const added = await addedToLog(stack, async () => {
      expect(await send("pixel-listed", "https://shop.example")).toBe(204);
      await save(["shop.example"]);
      await until("other pages are dropped", 30_000, async () => {
        await send("pixel-other", "https://other.example");
        const metrics = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
        expect(metrics).toMatch(/tributary_events_refused_total\{edge="pixel",code="domain_not_allowed"/);
      });
      expect(await send("pixel-listed-later", "https://shop.example")).toBe(204);
    });
    const ids = added.filter(({ source }) => source === "pixel").map(({ sender_event_id }) => sender_event_id);
    expect(ids).toEqual(expect.arrayContaining(["pixel-listed", "pixel-listed-later"]));
    await kill("SIGTERM");
    const seen = await inTenant((tx) => readSightings(tx, client, [client], Date.now() - 60_000));
    expect(seen.map(({ code, subject }) => `${code} ${subject}`)).toEqual(
      expect.arrayContaining(["taken https://shop.example", "domain_not_allowed https://other.example"]),
    );
  } finally {
    await save(before.allowed_domains);
    await pool.end();
  }
}, 60_000);

test("while the log stands still pages are answered at once, and a kill -9 then loses nothing", async () => {
  start();
  await until("it is ready", 20_000, isReady);
  const ids = idsIn(`still-${Date.now()}`, 200);
  const added = await addedToLog(stack, async () => {
    await whileFrozen(pidOf(stack, "kafka"), async () => {
      const began = performance.now();
      const answers = await Promise.all(ids.map((id) => send(id)));
      expect(new Set(answers)).toEqual(new Set([204]));
      expect(performance.now() - began).toBeLessThan(10_000);
      await until("the fault took effect", 30_000, async () => {
        const metrics = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
        if (!/^tributary_spool_events\{[^}]*\} [1-9]/m.test(metrics)) throw new Error("nothing waits on the disk");
      });
      await kill("SIGKILL");
      start();
      await until("it serves again", 20_000, async () => expect((await fetch(`${url}/ping`)).status).toBe(204));
    });
    await until("its spool is drained", 60_000, async () => {
      await isReady();
      const metrics = await (await fetch(`http://127.0.0.1:${opsPort}/metrics`)).text();
      if (!/^tributary_spool_events\{[^}]*\} 0$/m.test(metrics)) throw new Error("it holds events");
    });
  });
  const found = added.map(({ sender_event_id: id }) => id).filter((id) => id?.startsWith("still-"));
  expect(new Set(found)).toEqual(new Set(ids));
}, 180_000);
