// `dlq_depth` is the sum of the index, of letters that are not indexed yet, and of records that
// wait for a store that is down. The last number stays while no source answers.
import { describe, expect, test } from "vitest";
import type { Admin, Lag } from "../../infra/kafka/kafka.ts";
import { lastKnown, sumOf, unreadLetters, waitingForStores } from "../../modules/log/dead-letters/letter-depth.ts";
import { hostsOf } from "../../modules/log/groups/hosts.ts";
import { pipeline } from "../../topology.ts";
import { noon } from "../support/builders.ts";

const fresh = (counts: Readonly<Record<string, number>>) => ({ counts, isStale: false });

describe("the sum", () => {
  test("adds kind by kind, and is stale when a part of it is", () => {
    const some = fresh({ clicks: 1, s2s: 2, fewStrangers: 2 });
    expect(sumOf([some, fresh({}), { counts: { s2s: 5, pixel: 3 }, isStale: true }])).toEqual({
      depth: { clicks: 1, pixel: 3, s2s: 7 },
      fewStrangers: 2,
      isStale: true,
    });
    expect(sumOf([fresh({ clicks: 1 })])).toMatchObject({ isStale: false });
  });
  test("is unknown when a part was never known", () => expect(sumOf([fresh({ clicks: 1 }), null])).toBeNull());
});

test("the last answer stands while there is no new one; before the first there is none", async () => {
  const answers: (Readonly<Record<string, number>> | Error)[] = [
    new Error("away"),
    { s2s: 4 },
    new Error("away"),
    { s2s: 1 },
  ];
  const ask = lastKnown(async () => {
    const answer = answers.shift()!;
    if (answer instanceof Error) throw answer;
    return answer;
  });
  expect(await ask()).toBeNull();
  expect(await ask()).toEqual({ counts: { s2s: 4 }, isStale: false });
  expect(await ask()).toEqual({ counts: { s2s: 4 }, isStale: true });
  expect(await ask()).toEqual({ counts: { s2s: 1 }, isStale: false });
});

const lag = (group: string, topic: string, over: Partial<Lag>): Lag => ({
  group,
  topic,
  partition: 0,
  committed: 0,
  low: 0,
  high: 0,
  lag: 0,
  ...over,
});

test("what the index has not read is open; what is gone from every topic is not", async () => {
  const admin = {
    lag: async () => [
      lag("tributary.dead-letters", "s2s.dlq", { committed: null, low: 3, high: 10, lag: 7 }),
      lag("tributary.dead-letters", "s2s.dlq", { partition: 1, committed: 5, low: 9, high: 10, lag: 5 }),
      lag("tributary.dead-letters", "pixel.dlq", { committed: 4, high: 4 }),
    ],
  };
  expect(await unreadLetters(admin as unknown as Admin)).toEqual({ clicks: 0, pixel: 0, s2s: 8 });
});

describe("events that wait for a store", () => {
  const hosted = [
    { group: "tributary.enrich", topic: "events.raw", nodes: ["enrich", "score", "attribute"] },
    { group: "tributary.analytics", topic: "events.attributed", nodes: ["analytics", "product-sales"] },
  ];
  const together = [{ group: "tributary.velocity", topic: "events.attributed", nodes: ["velocity", "analytics"] }];
  /**
   * 40 records wait for the group whose store is down; the first `old` of them are more than a
   * minute old.
   */
  const standing = (held: string, old: number, recorded = hosted) => {
    const hosts = async () => hostsOf(pipeline, recorded, () => true);
    const admin = async () =>
      ({
        lag: async (group: string, [topic]: readonly string[]) => [
          lag(group, topic!, group === held ? { committed: 100, high: 140, lag: 40 } : { committed: 9, high: 9 }),
        ],
        offsetsAt: async (_: string, at: number) => {
          expect(at).toBe(noon - 60_000);
          return new Map([[0, 100 + old]]);
        },
      }) as unknown as Admin;
    return { admin, hosts };
  };
  test("count once the oldest has waited for a minute: clicks for Redis, s2s for ClickHouse", async () => {
    expect(await waitingForStores(standing("tributary.enrich", 1), { cache: true, analytics: false }, noon)).toEqual({
      clicks: 40,
      s2s: 0,
    });
    expect(
      await waitingForStores(standing("tributary.analytics", 40), { cache: false, analytics: true }, noon),
    ).toEqual({
      clicks: 0,
      s2s: 40,
    });
  });
  test("do not before, nor behind a store that is well", async () => {
    expect(await waitingForStores(standing("tributary.enrich", 0), { cache: true, analytics: false }, noon)).toEqual({
      clicks: 0,
      s2s: 0,
    });
    expect(await waitingForStores(standing("tributary.enrich", 9), { cache: false, analytics: true }, noon)).toEqual({
      clicks: 0,
      s2s: 0,
    });
  });
  test("count where the sink is hosted, and for each store that a sink beside it needs", async () => {
    const apart = standing("tributary.velocity", 40, together);
    expect(await waitingForStores(apart, { cache: false, analytics: true }, noon)).toEqual({ clicks: 0, s2s: 40 });
    expect(await waitingForStores(apart, { cache: true, analytics: false }, noon)).toEqual({ clicks: 40, s2s: 0 });
    expect(await waitingForStores(apart, { cache: true, analytics: true }, noon)).toEqual({ clicks: 0, s2s: 40 });
  });
  test("are not looked up while both stores are healthy", async () => {
    const asked = () => Promise.reject(new Error("asked"));
    expect(await waitingForStores({ admin: asked, hosts: asked }, { cache: false, analytics: false }, noon)).toEqual(
      {},
    );
  });
});
