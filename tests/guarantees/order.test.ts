// The order of durable effects: decode, load and fold, remember, produce, commit, count. After a
// failure no later effect has happened.
import { expect, test } from "vitest";
import { retry } from "../../infra/runtime/timing/retry.ts";
import { step, toys } from "../support/toy.ts";
import { Killed, publish, type WorkerSettings, type World, worker, world } from "../support/world.ts";

const whole = ["check", "walk", "point"];
const normal = [
  "load walk",
  "load point",
  "remember walk,point",
  "produce toy.out,toy.claims,toy.dlq",
  "commit 3",
  "count",
];
/** A claim, a plain step and a reject, all in one partition. */
const busy = (): World => {
  const made = world();
  publish(made, step("a", { order: "o" }), step("b"), step("c", { worth: -1 }));
  return made;
};
const partition = 0;
const readable = (made: World): number =>
  [0, 1, 2].find((n) => made.log.read("toy.raw", n, 0, 1).length > 0) ?? partition;
const run = async (made: World, settings: Partial<WorkerSettings> = {}, control = {}): Promise<unknown> => {
  try {
    await worker(made, { hosting: whole, ...settings }).step(readable(made), 100, control);
    return undefined;
  } catch (error) {
    return error;
  }
};

test("a batch goes through its steps in order", async () => {
  const made = busy();
  expect(await run(made)).toBeUndefined();
  expect(made.effects).toEqual(normal);
});

test.each(normal.slice(0, -1))("when '%s' fails, nothing after it happens", async (failing) => {
  const made = busy();
  const around = (effect: string, when: string) => {
    if (effect === failing && when === "before") throw new Killed();
  };
  expect(await run(made, { around })).toBeInstanceOf(Killed);
  expect(made.effects).toEqual(normal.slice(0, normal.indexOf(failing)));
});

test("a dead letter that cannot be written holds the offset", async () => {
  const made = world();
  publish(made, step("c", { worth: -1 }));
  const around = (effect: string) => {
    if (effect === "produce toy.dlq") throw new Error("the log is full");
  };
  expect(await run(made, { around })).toMatchObject({ message: "the log is full" });
  expect(made.committed.size).toBe(0);
});

test("unreadable bytes become a dead letter, and the rest of the batch goes on", async () => {
  const made = world();
  made.log.append([
    { topic: "toy.raw", key: "here", value: Buffer.from("garbage") },
    { topic: "toy.raw", key: "here", value: Buffer.from([0, 0, 0, 0, 99, 1, 2]) },
    { topic: "toy.raw", key: "here", value: null },
  ]);
  publish(made, step("a"));
  expect(await run(made)).toBeUndefined();
  expect(made.log.all("unreadable.dlq").map(({ headers }) => String(headers["tributary-code"]))).toEqual([
    "not_framed",
    "unknown_schema",
    "not_framed",
  ]);
  expect(made.log.all("unreadable.dlq")[0]).toMatchObject({ key: Buffer.from("here"), value: Buffer.from("garbage") });
  expect(made.log.all("toy.out")).toHaveLength(1);
});

test("an owner that lost its partition before remembering writes nothing", async () => {
  const made = busy();
  await run(made, {}, { isCurrent: () => false });
  expect(made.effects).toEqual(normal.slice(0, 2));
});

test.each([
  ["remembering", "remember walk,point"],
  ["producing", "produce toy.out,toy.claims,toy.dlq"],
])("an owner that lost its partition while %s goes no further", async (_, last) => {
  const made = busy();
  await run(made, {}, { isCurrent: () => made.effects.at(-1) !== last });
  expect(made.effects.at(-1)).toBe(last);
  expect(made.committed.size).toBe(0);
});

test("a transient error repeats that one step, with a heartbeat in between", async () => {
  const made = busy();
  let failures = 2;
  let heartbeats = 0;
  const around = (effect: string, when: string) => {
    if (effect.startsWith("produce") && when === "before" && failures-- > 0)
      throw Object.assign(new Error("away"), { verdict: "transient" });
  };
  const clock = { now: () => 0, sleep: async () => undefined, random: () => 0 };
  const ports = {
    retry: <T>(_: string, one: () => Promise<T>, between: () => Promise<void>) =>
      retry(one, { deadlineMs: 1_000, clock, beforeWait: between }),
  };
  const heartbeat = async () => {
    heartbeats += 1;
  };
  expect(await run(made, { around, ports }, { heartbeat })).toBeUndefined();
  expect(made.effects).toEqual(normal);
  expect(heartbeats).toBeGreaterThanOrEqual(2);
});

test("memory that moved under the fold makes it load and fold again, and nothing is out before", async () => {
  const made = world();
  publish(made, step("a", { order: "o", worth: 5 }));
  await run(made);
  let overtakes = 1;
  const claims = (factor: number, around?: WorkerSettings["around"]) =>
    worker(made, {
      hosting: ["settle"],
      read: (async () => factor) as never,
      ...(around === undefined ? {} : { around }),
    });
  const place = [0, 1].find((n) => made.log.read("toy.claims", n, 0, 1).length > 0)!;
  made.effects.length = 0;
  await claims(7, async (effect, when) => {
    if (effect === "remember settle" && when === "before" && overtakes-- > 0) await claims(3).hold(place, 10)();
  }).step(place, 10);
  expect(made.effects.filter((effect) => effect !== "count")).toEqual([
    "load settle",
    "load settle",
    "remember settle",
    "produce toy.sums",
    "remember settle",
    "load settle",
    "remember settle",
    "produce toy.sums",
    "commit 1",
  ]);
  const [first, second] = made.log.all("toy.sums");
  expect(second!.value!.equals(first!.value!)).toBe(true);
  expect(made.wire.decode(toys.sums, first!.value, { topic: "", partition: 0, offset: 0 }).data.total).toBe(15);
});

test(
  "a message that no processor survives stops the worker there, after what came before it; the " +
    "third stop calls an operator",
  async () => {
    const made = world();
    publish(made, step("a"), step("b"), step("poison", { worth: 666 }), step("c"));
    const logged: string[] = [];
    const stopsOf = (stops: number) => ({
      stops: async () => stops,
      log: {
        info: () => undefined,
        warn: (event: string) => logged.push(event),
        error: (event: string, fields?: object) => logged.push(`${event} ${(fields as { offset: number }).offset}`),
      } as never,
    });
    for (const stops of [1, 2, 3])
      expect(await run(made, { ports: stopsOf(stops) })).toMatchObject({ name: "ProcessorThrew", offset: 2 });
    expect([...made.committed.values()]).toEqual([2]);
    expect(made.log.all("toy.out")).toHaveLength(2);
    expect(logged).toEqual(["stage.stopped", "stage.stopped", "stage.stuck 2"]);
  },
);
