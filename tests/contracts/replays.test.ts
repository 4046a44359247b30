// Replays in Postgres: equal calls share one, one lane at a time works on it, and only the owner
// moves its position and counts.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { skippedOf } from "../../modules/log/replays/replay-lane.ts";
import {
  cancelReplay,
  claimReplay,
  LaneLost,
  openReplays,
  ownedReplay,
  type Replay,
  readReplay,
  requestReplay,
  type Segment,
  type WantedReplay,
} from "../../modules/log/replays/replays.ts";
import { awaitReplay, hasEnded, progressOf, ReplayStalled, reportOf } from "../../modules/log/replays/report.ts";
import { type FreshDatabase, freshDatabase } from "../support/fresh-database.ts";

let database: FreshDatabase;
beforeAll(async () => {
  database = await freshDatabase();
});
beforeEach(() => database.adminPool.query("truncate replays cascade"));
afterAll(() => database.drop());

const hourMs = 3_600_000;
const now = Date.now();
const wanted = (hours: number, over: Partial<WantedReplay> = {}): WantedReplay => ({
  actor: "test",
  hours,
  from: now - hours * hourMs,
  to: null,
  sinks: ["analytics", "ledger"],
  ...over,
});
const segment = (over: Partial<Segment> = {}): Segment => ({
  ...{ topic: "events.attributed", partition: 0, start: 100, end: 300, skip_from: 0, skip_to: 0 },
  ...over,
});
const step = { place: "events.attributed-0", requeued: 90, skipped: 0, suppressed: 10, refused: 0, errors: [] };
const claimed = async (owner: string): Promise<Replay> => {
  const found = await claimReplay(database.pool(), owner);
  if (found === undefined || found === "busy") throw new Error(`${found}`);
  return found;
};

test("of fifty calls at once one makes the replay and the others join it", async () => {
  const pool = database.pool({ max: 8 });
  const made = await Promise.all(Array.from({ length: 50 }, () => requestReplay(pool, wanted(6))));
  expect(new Set(made.map(({ replay_id }) => replay_id)).size).toBe(1);
  expect(made.filter(({ isJoined }) => !isJoined)).toHaveLength(1);
  expect(await openReplays(pool)).toHaveLength(1);
});

test("a window is joined by what lies within it, in time and in sinks, and by nothing else", async () => {
  const pool = database.pool();
  const { replay_id } = await requestReplay(pool, wanted(6));
  const joins = async (over: Partial<WantedReplay>) =>
    (await requestReplay(pool, wanted(1, over))).replay_id === replay_id;
  expect(await joins({})).toBe(true);
  expect(await joins({ sinks: ["ledger"], to: now })).toBe(true);
  expect(await joins({ from: now - 7 * hourMs })).toBe(false);
  expect(await joins({ sinks: ["ledger", "identity"] })).toBe(false);
});

test(
  "a replay that has begun takes no more requests: what was lost behind its position comes back with " +
    "the next one, which skips the rest",
  async () => {
    const pool = database.pool();
    const { replay_id } = await requestReplay(pool, wanted(6));
    const owned = ownedReplay(pool, (await claimed("one")).replay_id, "one");
    expect(await requestReplay(pool, wanted(6))).toEqual({ replay_id, isJoined: true });
    await owned.decide([segment()]);
    await owned.advance({ ...step, next: 200 });
    const next = await requestReplay(pool, wanted(1));
    expect(next.isJoined).toBe(false);
    expect(await requestReplay(pool, wanted(1)), "one that waits is enough").toEqual({ ...next, isJoined: true });
    const { met } = (await readReplay(pool, next.replay_id))!;
    expect(skippedOf(segment(), { met }, [{ replay_id, ranges: [segment()] }])).toEqual({
      skip_from: 200,
      skip_to: 300,
    });
  },
);

test(
  "the oldest is worked off first, one at a time; a lane that says nothing any more is taken over " +
    "and can move nothing",
  async () => {
    const pool = database.pool();
    const first = await requestReplay(pool, wanted(1));
    const second = await requestReplay(pool, wanted(6));
    const one = await claimed("one");
    expect([one.replay_id, one.state, one.attempts]).toEqual([first.replay_id, "running", 1]);
    expect(await claimReplay(pool, "two")).toBe("busy");
    const owned = ownedReplay(pool, one.replay_id, "one");
    await owned.decide([segment()]);
    await owned.advance({ ...step, next: 200 });
    await database.adminPool.query("update replays set lease_until = now() - interval '1 second'");
    const two = await claimed("two");
    expect([two.replay_id, two.attempts, two.positions, two.requeued]).toEqual([
      first.replay_id,
      2,
      { "events.attributed-0": 200 },
      90,
    ]);
    const moves = [() => owned.advance({ ...step, next: 300 }), owned.renew, owned.release, () => owned.end("done")];
    for (const move of moves) await expect(move()).rejects.toBeInstanceOf(LaneLost);
    await ownedReplay(pool, two.replay_id, "two").end("done");
    expect((await claimed("two")).replay_id).toBe(second.replay_id);
  },
);

test("position and counts are of one statement, and the report adds up", async () => {
  const pool = database.pool();
  const { replay_id } = await requestReplay(pool, wanted(6));
  const owned = ownedReplay(pool, (await claimed("one")).replay_id, "one");
  await owned.decide([segment(), segment({ partition: 1, start: 5, end: 9 })]);
  await owned.advance({ ...step, next: 200 });
  await owned.advance({
    ...step,
    next: 300,
    requeued: 99,
    suppressed: 0,
    refused: 1,
    errors: [{ file: "f", message: "m" }],
  });
  const midway = (await readReplay(pool, replay_id))!;
  expect([progressOf(midway), hasEnded(midway), reportOf(midway).ok]).toEqual([
    { done: 200, total: 204 },
    false,
    false,
  ]);
  await owned.end("done");
  expect(reportOf((await readReplay(pool, replay_id))!)).toMatchObject({
    ...{
      ok: false,
      state: "done",
      hours: 6,
      files_scanned: 1,
      events_requeued: 189,
      events_skipped_duplicate: 0,
      events_suppressed: 10,
    },
    errors: [{ file: "f", message: "m" }],
  });
});

test("a cancelled replay moves no more, and cannot be cancelled twice", async () => {
  const pool = database.pool();
  const { replay_id } = await requestReplay(pool, wanted(6));
  const owned = ownedReplay(pool, (await claimed("one")).replay_id, "one");
  expect([await cancelReplay(pool, replay_id), await cancelReplay(pool, replay_id)]).toEqual([true, false]);
  await expect(owned.advance({ ...step, next: 200 })).rejects.toBeInstanceOf(LaneLost);
  expect(reportOf((await readReplay(pool, replay_id))!)).toMatchObject({ ok: false, state: "cancelled" });
});

test("waiting for a replay ends when no keeper takes it up, and the replay stays", async () => {
  const pool = database.pool();
  const { replay_id } = await requestReplay(pool, wanted(6));
  const error = await awaitReplay(pool, replay_id, { stalledMs: 300 }).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(ReplayStalled);
  expect(error.message).toContain("is one running?");
  expect((await readReplay(pool, replay_id))!.state).toBe("waiting");
});

test("what an earlier lane has written since a replay was asked for is not written again, and nothing more", () => {
  const earlier = [{ replay_id: "rpl_a", ranges: [segment({ start: 150, end: 260 })] }];
  const skipped = (met: Replay["met"], range = segment()) => skippedOf(range, { met }, earlier);
  expect(skipped({ rpl_a: { "events.attributed-0": 200 } })).toEqual({ skip_from: 200, skip_to: 260 });
  expect(skipped({ rpl_a: {} }), "it had not begun: all of it came after").toEqual({ skip_from: 150, skip_to: 260 });
  expect(skipped({ rpl_a: { "events.attributed-0": 260 } }), "it was through before").toEqual({
    skip_from: 0,
    skip_to: 0,
  });
  expect(skipped({ rpl_a: {} }, segment({ start: 170, end: 180 }))).toEqual({ skip_from: 170, skip_to: 180 });
  expect(skipped({ rpl_a: {} }, segment({ partition: 7 }))).toEqual({ skip_from: 0, skip_to: 0 });
});
