// Recordings on real servers: the pixel host dies between the row of a chunk and its object, and
// between the object and the answer. The browser sends the chunk again, and it is stored whole and
// once.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openObjects } from "../../../infra/objects/open.ts";
import { openPool, sql, transaction } from "../../../infra/postgres/sql.ts";
import { keyringOf } from "../../../infra/runtime/keyring.ts";
import { until } from "../../../infra/runtime/timing/wait-until.ts";
import {
  readPixelConfig,
  type SavedPixelConfig,
  savePixelConfig,
} from "../../../modules/catalog/pixel/pixel-config.ts";
import { openRecording } from "../../../modules/intake/recordings/recording-reads.ts";
import { root, spawned } from "../../support/e2e-product.ts";
import { type PixelProcess, startPixel } from "../../support/pixel-process.ts";
import { sharedStack } from "../../support/shared-stack.ts";

const stack = sharedStack();
const clientId = stack.demo.clients[0].id as number;
const sessionId = `visit-${Date.now()}`;
const pool = openPool(stack.env.POSTGRES_URL!, { max: 2, timeoutMs: 20_000 });
const objects = openObjects(stack.env.OBJECT_STORE_URL!);
const inTenant = <T>(work: Parameters<typeof transaction<T>>[2]) => transaction(pool, [clientId], work);
let before: SavedPixelConfig;
const running: PixelProcess[] = [];

beforeAll(() =>
  inTenant(async (tx) => {
    before = (await readPixelConfig(tx, clientId, [clientId]))!;
    await savePixelConfig(tx, clientId, { ...before, replay_enabled: true, replay_sample_rate: 100 });
  }),
);
afterAll(async () => {
  await Promise.all(running.map(({ end }) => end()));
  await inTenant((tx) => savePixelConfig(tx, clientId, before));
  await Promise.all([pool.end(), objects.close()]);
});

const start = async (failpoints = ""): Promise<PixelProcess> => {
  const one = await startPixel(stack, "pixel-recording", failpoints);
  running.push(one);
  return one;
};
const ticketOf = async ({ url }: PixelProcess): Promise<string | undefined> => {
  const config = (await (await fetch(`${url}/config?cid=${clientId}`)).json()) as { readonly replay_ticket?: string };
  return config.replay_ticket;
};
const send = async (host: PixelProcess, over: object = {}) =>
  fetch(`${host.url}/replay`, {
    method: "POST",
    body: JSON.stringify({
      ...{
        cid: clientId,
        did: `device of ${sessionId}`,
        sid: sessionId,
        page: "0123456789abcdef",
        seq: 0,
        consent: 255,
        ticket: await ticketOf(host),
      },
      events: [{ type: 4, timestamp: Date.now(), data: { href: "https://shop.example/" } }],
      ...over,
    }),
  });
const stored = async (): Promise<number> => {
  let count = 0;
  for await (const _ of objects.list(`recordings/${clientId}/${sessionId}/`)) count += 1;
  return count;
};
const read = () =>
  openRecording(
    { pool, objects, keyring: keyringOf(stack.env.TRIBUTARY_SECRET!), latestMask: async () => undefined },
    { clientId, sessionId },
    { actor: "test@cli", role: "operator", request_id: "cli-test", ip: null },
  );
const dies = async (one: PixelProcess): Promise<void> => {
  await until("its configuration is known", 30_000, async () =>
    expect((await send(one, { seq: -1 })).status).toBe(400),
  );
  await expect(send(one)).rejects.toThrow();
  expect([await one.died, one.hits()]).toEqual(["SIGKILL", expect.stringContaining("killed")]);
};

test("a chunk whose host dies at each step is whole once it is sent again, and is there once", async () => {
  await dies(await start("recording-named=1"));
  expect(await stored()).toBe(0);
  expect(await read()).toMatchObject({ events: 1, missing: 1, pages: [] });

  await dies(await start("recording-stored=1"));
  expect(await stored()).toBe(1);

  const { rows } = await inTenant((tx) =>
    tx.query(sql`select has_ticket from recordings where client_id = ${clientId} and session_id = ${sessionId}`),
  );
  expect(rows).toEqual([{ has_ticket: true }]);

  const whole = await start();
  expect((await send(whole)).status).toBe(204);
  expect((await send(whole, { seq: 1 })).status).toBe(204);
  expect(await stored()).toBe(2);
  expect(await read()).toMatchObject({ events: 2, missing: 0, pages: [{ page: "0123456789abcdef" }] });
}, 120_000);

const tributary = (...args: readonly string[]) =>
  spawned([`${root}/dist/apps/cli/main.js`, ...args], { ...process.env, ...stack.env });

test("an operator opens it by the command line until Ctrl-C, which the audit says, and no one else does", async () => {
  const viewing = tributary("replay-view", sessionId);
  const url = await until("it is served", 30_000, () => {
    const found = /^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}-view$/m.exec(viewing.stdout());
    if (found === null) throw new Error("no address yet");
    return found[0];
  });
  const answer = await fetch(url);
  expect([answer.status, answer.headers.get("content-security-policy")]).toEqual([
    200,
    expect.stringContaining("default-src 'none'; script-src 'self'"),
  ]);
  expect(await answer.text()).toContain(sessionId);
  const recording = await (await fetch(url.replace("-view", "-recording.json"))).json();
  expect(recording).toMatchObject({ pages: [{ events: [{ type: 4 }, { type: 4 }] }] });
  expect((await (await fetch(url.replace("-view", "-player.js"))).text()).length).toBeGreaterThan(100_000);
  expect((await fetch(url.replace(/[0-9a-f]{32}/, "0".repeat(32)))).status).toBe(404);
  viewing.child.kill("SIGINT");
  expect(await viewing.done).toMatchObject({ code: 0 });
  const { rows } = await inTenant((tx) =>
    tx.query<{ actor: string }>(sql`select actor from audit where entity = ${`replay:${sessionId}`}
      and client_id = ${clientId} and action = 'replay.viewed' and request_id <> 'cli-test'`),
  );
  expect(rows).toEqual([{ actor: expect.stringMatching(/@cli$/) }]);

  const unknown = await tributary("replay-view", "visit-unknown").done;
  expect([unknown.code, unknown.stderr]).toEqual([2, expect.stringContaining("there is no recording of the visit")]);
}, 90_000);
