// A worker leaves groups that are held, in order, and joins them again later; a silent Postgres
// changes nothing.
import { setTimeout } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import type { Consumer } from "../../infra/kafka/kafka.ts";
import { openMemberships } from "../../modules/log/groups/membership.ts";

const until = async (condition: () => boolean): Promise<void> => {
  const end = performance.now() + 20_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`waited in vain for ${condition}`);
    await setTimeout(5);
  }
};
const closings: AbortController[] = [];
afterEach(() => {
  for (const closing of closings.splice(0)) closing.abort();
});

/** Two groups, a table of holds that the test changes, and a list of all actions. */
const hosted = async (first: Readonly<Record<string, string>> = {}, refusal?: Error, isAway = false) => {
  const effects: string[] = [];
  const failures: Error[] = [];
  const closing = new AbortController();
  closings.push(closing);
  const table = { held: first, isAway, asked: 0 };
  const consumerOf = (group: string): Consumer => ({
    assigned: () => ({}),
    silentMs: () => 0,
    pause: () => undefined,
    resume: () => undefined,
    stop: async () => {
      // A batch is under way and is finished first.
      await setTimeout(5);
      effects.push(`left ${group}`);
    },
  });
  const opening = openMemberships(
    ["chain", "sink"].map((group) => ({
      group,
      sessionTimeoutMs: 10_000,
      log: { info: () => undefined },
      fail: (error: Error) => void failures.push(error),
      join: async () => {
        if (refusal !== undefined && effects.includes(`left ${group}`)) throw refusal;
        effects.push(`joined ${group}`);
        return consumerOf(group);
      },
    })),
    async () => {
      table.asked += 1;
      if (table.isAway) throw new Error("Postgres is away");
      return new Map(Object.entries(table.held));
    },
    { warn: () => effects.push("warned that nothing is known") },
    closing.signal,
    5,
  );
  const asksTwice = async () => {
    const { asked } = table;
    await until(() => table.asked > asked + 1);
  };
  return { effects, failures, closing, table, opening, asksTwice };
};

test("a group is left when it is held and joined again when it is released; the others do not notice", async () => {
  const { effects, table, opening } = await hosted();
  const { value, stop } = await opening;
  table.held = { chain: "op_1 (rewind, ada)" };
  await until(() => effects.includes("left chain"));
  await until(() => value[0]!.check() !== undefined);
  expect(value.map(({ check }) => check())).toEqual(["held by op_1 (rewind, ada)", undefined]);
  table.held = {};
  await until(() => effects.filter((one) => one === "joined chain").length === 2);
  closings[0]!.abort();
  await stop();
  expect(effects).toEqual(["joined chain", "joined sink", "left chain", "joined chain", "left chain", "left sink"]);
});

test("a worker that starts while a group is held is ready and waits", async () => {
  const { effects, opening, table } = await hosted({ chain: "op_1 (rewind, ada)" });
  const { value } = await opening;
  expect(effects).toEqual(["joined sink"]);
  expect(value[0]!.check()).toBe("held by op_1 (rewind, ada)");
  table.held = {};
  await until(() => effects.includes("joined chain"));
});

test("a silent Postgres keeps what is known: joined groups stay in, held ones stay out", async () => {
  const { effects, table, opening, asksTwice } = await hosted({ chain: "op_1 (rewind, ada)" });
  await opening;
  table.isAway = true;
  table.held = { sink: "op_2 (rewind, ada)" };
  await asksTwice();
  expect(effects).toEqual(["joined sink", "warned that nothing is known"]);
  table.isAway = false;
  await until(() => effects.includes("left sink") && effects.includes("joined chain"));
});

test("nothing is joined before it is known whether it is held", async () => {
  const made = await hosted({}, undefined, true);
  await made.asksTwice();
  expect(made.effects.filter((one) => one.startsWith("joined"))).toEqual([]);
  made.table.isAway = false;
  await made.opening;
  expect(made.effects.filter((one) => one.startsWith("joined"))).toEqual(["joined chain", "joined sink"]);
});

test("a group that cannot be joined again ends the process", async () => {
  const { table, opening, failures, effects } = await hosted({}, new Error("no coordinator"));
  await opening;
  table.held = { chain: "op_1 (rewind, ada)" };
  await until(() => effects.includes("left chain"));
  table.held = {};
  await until(() => failures.length > 0);
  expect(failures[0]!.message).toBe("no coordinator");
});
