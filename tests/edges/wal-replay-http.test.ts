// POST /admin/wal-replay from outside: the order of checks, every invalid number of hours, and the
// answer to a caller that waits while no keeper runs.
import { afterAll, beforeAll, expect, test } from "vitest";
import { openPool } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { createToken } from "../../modules/access/tokens/tokens.ts";
import { cancelReplay, claimReplay, openReplays, ownedReplay } from "../../modules/log/replays/replays.ts";
import { newTokens, type RunningIngest, startIngest } from "../support/ingest.ts";
import { sharedStack } from "../support/shared-stack.ts";

const stack = sharedStack();
const pool = openPool(stack.env.POSTGRES_URL!, { max: 3 });
let ingest: RunningIngest;
let admin: string;
let ofClient: string;
const path = (query = "") => `${ingest.url}/admin/wal-replay${query}`;
const post = (query: string, token: string | undefined = admin, over: RequestInit = {}) =>
  fetch(path(query), {
    method: "POST",
    ...(token !== undefined && { headers: { authorization: `Bearer ${token}` } }),
    ...over,
  });

beforeAll(async () => {
  ingest = await startIngest(stack.env);
  await ingest.ready();
  admin = (await createToken(pool, { kind: "admin", label: "test" })).token;
  ofClient = (await newTokens(stack, stack.demo.clients[0].id, 1))[0]!.token;
  await until("the edge knows the token", 30_000, async () => {
    if ((await post("?hours=0")).status !== 400) throw new Error("not yet");
  });
});
afterAll(async () => {
  await ingest?.close();
  await pool.end();
});

test.each(["0", "-1", "49", "1.5", "6;drop", "", "6e0", "0x6", " 6", "six", "006", "1&hours=2", "٦", "9".repeat(400)])(
  "hours=%s is refused by name",
  async (hours) => {
    const response = await post(`?hours=${hours.includes("&") ? hours : encodeURIComponent(hours)}`);
    const body = (await response.json()) as { code: string; errors: unknown };
    expect([response.status, body.code, body.errors]).toMatchObject([
      400,
      "validation_failed",
      [{ pointer: "/hours" }],
    ]);
  },
);

test("the order of checks: path, method, token, hours", async () => {
  expect((await fetch(path("/x/y"), { method: "POST" })).status).toBe(404);
  const wrongMethod = await fetch(path("?hours=0"));
  expect([wrongMethod.status, wrongMethod.headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
  expect((await post("?hours=0", "")).status).toBe(401);
  expect((await post("?hours=0", ofClient)).status, "a token of another kind opens nothing").toBe(401);
  expect((await fetch(path("/rpl_00000000-0000-0000-0000-000000000000"))).status).toBe(401);
});

test("an unknown replay is not found, whatever its id looks like", async () => {
  for (const id of ["rpl_00000000-0000-0000-0000-000000000000", "x", "%27%3Bdrop", "..%2f", "%00", "rpl_%00"])
    expect((await fetch(path(`/${id}`), { headers: { authorization: `Bearer ${admin}` } })).status).toBe(404);
});

test(
  "a caller that hangs up has asked all the same; a call after the lane has begun gets the end of a " +
    "replay of its own",
  async () => {
    const leaving = new AbortController();
    const left = post("", admin, { signal: leaving.signal }).catch((error: Error) => error.name);
    const replay = await until("somebody asks", 30_000, async () => {
      const found = await claimReplay(pool, "test");
      if (found === undefined || found === "busy") throw new Error(`${found}`);
      return found;
    });
    expect(replay).toMatchObject({ hours: 6, to_at: null });
    leaving.abort();
    expect(await left).toBe("AbortError");
    const owned = ownedReplay(pool, replay.replay_id, "test");
    await owned.decide([{ topic: "conversions", partition: 0, start: 0, end: 4, skip_from: 0, skip_to: 0 }]);
    await owned.advance({
      place: "conversions-0",
      next: 4,
      requeued: 3,
      skipped: 0,
      suppressed: 1,
      refused: 0,
      errors: [],
    });
    const shown = await fetch(path(`/${replay.replay_id}`), { headers: { authorization: `Bearer ${admin}` } });
    expect(await shown.json()).toMatchObject({ state: "running", records_done: 4, records_total: 4, ok: false });
    const again = post("?hours=3");
    const next = await until("the second call waits", 30_000, async () => {
      const [, waiting] = await openReplays(pool);
      if (waiting === undefined) throw new Error("not yet");
      return waiting;
    });
    expect(next).toMatchObject({ hours: 3, met: { [replay.replay_id]: { "conversions-0": 4 } } });
    await owned.end("done");
    expect(await claimReplay(pool, "test")).toMatchObject({ replay_id: next.replay_id });
    const second = ownedReplay(pool, next.replay_id, "test");
    await second.decide([{ topic: "conversions", partition: 0, start: 2, end: 6, skip_from: 4, skip_to: 5 }]);
    await second.advance({
      place: "conversions-0",
      next: 6,
      requeued: 3,
      skipped: 1,
      suppressed: 0,
      refused: 0,
      errors: [],
    });
    await second.end("done");
    const response = await again;
    expect([response.status, await response.json()]).toEqual([
      200,
      {
        ...{
          ok: true,
          replay_id: next.replay_id,
          hours: 3,
          from: expect.any(String),
          to: expect.any(String),
          files_scanned: 1,
        },
        ...{ events_requeued: 3, events_skipped_duplicate: 1, events_suppressed: 0, events_refused: 0, errors: [] },
      },
    ]);
  },
);

test("a replay that an operator ends answers who waits for it", async () => {
  const waiting = post("?hours=48");
  const replay = await until("it is asked for", 30_000, async () => {
    const { rows } = await pool.query("select replay_id from replays where state = 'waiting'");
    if (rows.length === 0) throw new Error("not yet");
    return rows[0].replay_id as string;
  });
  expect(await cancelReplay(pool, replay)).toBe(true);
  const response = await waiting;
  expect([response.status, await response.json()]).toMatchObject([
    200,
    { ok: false, replay_id: replay, events_requeued: 0 },
  ]);
});
