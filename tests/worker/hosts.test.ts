// Which worker hosts which nodes, and which groups an event passes: computed from the pipeline and
// the workers' records.
import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { hopsTo, hostsNow, hostsOf, type RecordedHosting } from "../../modules/log/groups/hosts.ts";
import { recordedSoon } from "../../modules/log/groups/record-hosting.ts";
import { events } from "../../sinks/analytics/table.ts";
import { readersOf, sinkInto } from "../../stream/topology.ts";
import { pipeline } from "../../topology.ts";

const attributed = "events.attributed";
const fused: RecordedHosting = {
  group: "tributary.analytics",
  topic: attributed,
  nodes: ["analytics", "product-sales"],
};
const chained: RecordedHosting = {
  group: "tributary.enrich",
  topic: "events.raw",
  nodes: ["enrich", "score", "attribute"],
};
const alone: RecordedHosting = { group: "tributary.product-sales", topic: attributed, nodes: ["product-sales"] };
const hosts = (recorded: readonly RecordedHosting[], members: readonly string[] = []) =>
  hostsOf(pipeline, recorded, (group) => members.includes(group));
const way = (recorded: readonly RecordedHosting[]) =>
  hopsTo(pipeline, sinkInto(pipeline, events), hosts(recorded)).map(({ group, topic }) => `${group} ${topic}`);

test("a stage or sink is hosted by the group that recorded it, else by the one of its own name", () => {
  expect(hosts([fused])({ name: "product-sales" })).toMatchObject({ ...fused, isRecorded: true });
  expect(hosts([fused])({ name: "velocity" })).toMatchObject({ group: "tributary.velocity", isRecorded: false });
  expect(() => hosts([])({ name: "batch" })).toThrow("batch is no stage and no sink");
});

test("of two groups that recorded it the one with members hosts it, else the one joined last", () => {
  expect(hosts([alone, fused])({ name: "product-sales" }).group).toBe("tributary.product-sales");
  expect(hosts([alone, fused], ["tributary.analytics"])({ name: "product-sales" }).group).toBe("tributary.analytics");
});

test("the broker is asked only where two groups claim the same", async () => {
  const asked: (readonly string[])[] = [];
  const describeGroups = async (groups: readonly string[]) => {
    asked.push(groups);
    return groups.map((group) => ({ group, state: "Empty", members: [] }));
  };
  await hostsNow({ topology: pipeline, recorded: async () => [fused, chained], describeGroups });
  expect(asked).toEqual([]);
  await hostsNow({ topology: pipeline, recorded: async () => [alone, fused, chained], describeGroups });
  expect(asked).toEqual([["tributary.product-sales", "tributary.analytics"]]);
});

test("every stage that leads to a sink is on the way to it, each once, in the order of the data", () => {
  expect(way([])).toEqual([
    "tributary.enrich events.raw",
    "tributary.score events.enriched",
    "tributary.attribute events.scored",
    "tributary.settle claims",
    "tributary.analytics events.attributed",
  ]);
});

test("a fused stage is passed in its chain, and in its own topic for what was written while it was apart", () => {
  expect(way([chained, fused])).toEqual(way([]));
  const moved = { ...fused, group: "tributary.velocity", nodes: ["velocity", "analytics"] };
  expect(way([chained, moved]).at(-1)).toBe("tributary.velocity events.attributed");
});

test("every stage and sink of the pipeline has a host, whatever was recorded", () => {
  for (const node of readersOf(pipeline)) expect(hosts([fused, chained, alone])(node).nodes).toContain(node.name);
});

test("a hosting that Postgres does not take is recorded once it does, and the join does not wait for it", async () => {
  const warned: string[] = [];
  const waits: (() => void)[] = [];
  let isAway = true;
  let records = 0;
  const record = async (): Promise<void> => {
    if (isAway) throw Object.assign(new Error("away"), { code: "ECONNREFUSED" });
    records += 1;
  };
  const clock = {
    now: () => 0,
    random: () => 1,
    sleep: () => new Promise<void>((resolve) => void waits.push(resolve)),
  };
  const log = { warn: (what: string) => void warned.push(what) };
  await recordedSoon(record, log, "tributary.x", new AbortController().signal, clock);
  const released = (): number => {
    waits.shift()?.();
    return records;
  };
  for (let n = 0; n < 3; n += 1) await setImmediate(released());
  expect([records, warned]).toEqual([0, ["hosting.not_told"]]);
  isAway = false;
  await expect.poll(released).toBe(1);
});
