// How late sales are, by the host of their sink, and the probe's answer while the log does not
// answer.
import { expect, test } from "vitest";
import { hostsOf, type RecordedHosting } from "../../modules/log/groups/hosts.ts";
import { openProbes, SYNC_LAG_LIMIT_SEC } from "../../modules/running/repair/probes.ts";
import { readIntoClickhouse, syncLagOf } from "../../modules/running/repair/sync-lag.ts";
import { pipeline } from "../../topology.ts";
import { noon } from "../support/builders.ts";

/** One partition of 100 records, one a minute until now; committed offsets by group. */
const broker = (committed: Readonly<Record<string, number>>) => ({
  watermarks: async () => [{ partition: 0, low: 0, high: 100 }],
  committed: async (group: string) => new Map(committed[group] === undefined ? [] : [[0, committed[group]] as const]),
  offsetsAt: async (_: string, at: number) => {
    // The client throws a RangeError for other values.
    expect(Number.isInteger(at)).toBe(true);
    return new Map([[0, Math.min(100, Math.max(0, 100 - Math.floor((noon - at) / 60_000)))]]);
  },
});
const lagging = (recorded: readonly RecordedHosting[], committed: Readonly<Record<string, number>>) =>
  syncLagOf(
    broker(committed),
    hostsOf(pipeline, recorded, () => true),
    () => noon,
  );
const fused = { group: "tributary.analytics", topic: "events.attributed", nodes: ["analytics", "product-sales"] };
const behindOthers = { group: "tributary.velocity", topic: "events.attributed", nodes: ["velocity", "product-sales"] };
const alone = { group: "tributary.product-sales", topic: "events.attributed", nodes: ["product-sales"] };

test.each([
  ["with the sinks that it is fused with", [fused], "tributary.analytics"],
  ["behind any other first sink", [behindOthers], "tributary.velocity"],
  ["alone, though its worker is away for a moment", [alone], "tributary.product-sales"],
  ["nowhere yet, by the group of its own name", [], "tributary.product-sales"],
])("sales are as late as the group that hosts their sink: %s", async (_, recorded, group) => {
  const others = { "tributary.analytics": 100, "tributary.velocity": 100, "tributary.product-sales": 100 };
  expect(await lagging(recorded, { ...others, [group]: 60 })).toBeCloseTo(40 * 60, -2);
  expect(await lagging(recorded, { ...others, [group]: 100 })).toBe(0);
});

const probe = (syncLag: () => Promise<number>) => {
  const nothing = null as never;
  return openProbes({
    ...{ instance: "one", topicPrefix: "", clickhouse: nothing, redis: nothing, objects: nothing },
    ...{ eventLog: nothing, eventProcessing: nothing, readIntoClickhouse: nothing },
    pool: { query: async () => ({ rows: [] }) } as never,
    syncLag,
  }).relational_store;
};

test("while the log is away an alert about late sales is neither raised nor taken back", async () => {
  const late = await probe(async () => SYNC_LAG_LIMIT_SEC + 1)(null).catch((error: Error) => error.message);
  expect(late).toContain("sales reach Postgres 1801 s late");
  const away = probe(() => Promise.reject(new Error("the log does not answer")));
  await expect(away(null)).resolves.toBeUndefined();
  await expect(away(late as string)).rejects.toThrow("1801 s late");
  await expect(away("connection refused")).resolves.toBeUndefined();
  await expect(probe(async () => 0)(late as string)).resolves.toBeUndefined();
});

test("what ClickHouse must have is counted by how long ago it was appended, up to what was read", async () => {
  const hosts = hostsOf(pipeline, [fused], () => true);
  const read = await readIntoClickhouse(broker({ "tributary.analytics": 60 }), hosts, () => noon);
  expect(read.slice(0, 4)).toEqual([
    { ageSec: 0, records: 60 },
    { ageSec: 600, records: 60 },
    { ageSec: 3_600, records: 40 },
    { ageSec: 86_400, records: 0 },
  ]);
});
