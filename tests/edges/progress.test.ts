// Accepted events count as stored once the groups that host the pipeline now have committed them.
import { expect, test } from "vitest";
import { progressOf } from "../../modules/figures/receipts/progress.ts";
import { hostsOf, type RecordedHosting } from "../../modules/log/groups/hosts.ts";
import { pipeline } from "../../topology.ts";

/** Ten records in events.attributed; the other topics are empty. */
const world = () => {
  const state = { recorded: [] as readonly RecordedHosting[], committed: {} as Record<string, number> };
  const progress = progressOf({
    admin: async () => ({
      watermarks: async (topic) => [{ partition: 0, low: 0, high: topic === "events.attributed" ? 10 : 0 }],
      committed: async (group) => {
        const offset = state.committed[group];
        return new Map(offset === undefined ? [] : [[0, offset]]);
      },
    }),
    hosts: async () => hostsOf(pipeline, state.recorded, () => true),
    isHolding: () => false,
  });
  return { state, progress };
};
const behind = (first: string): RecordedHosting => ({
  group: `tributary.${first}`,
  topic: "events.attributed",
  nodes: [first, "analytics"],
});

test("events are through when the group that hosts the analytics sink has committed them, and no other", async () => {
  const { state, progress } = world();
  state.recorded = [behind("velocity")];
  state.committed = { "tributary.analytics": 10 };
  expect(await progress.isThrough(Date.now() - 60_000, 50)).toBe(false);
  state.committed["tributary.velocity"] = 10;
  expect(await progress.isThrough(Date.now() - 60_000, 5_000)).toBe(true);
});

test("a walk that waits for a group without the sink is given up, and the next one is through", async () => {
  const { state, progress } = world();
  state.recorded = [behind("velocity")];
  const waiting = progress.isThrough(Date.now() - 60_000, 20_000);
  state.recorded = [behind("identity")];
  state.committed = { "tributary.identity": 10 };
  expect(await waiting).toBe(false);
  expect(await progress.isThrough(Date.now() - 60_000, 5_000)).toBe(true);
});
