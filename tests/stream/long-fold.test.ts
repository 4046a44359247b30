// A fold that takes long, or that needs more keys than were loaded at first.
import { expect, test } from "vitest";
import { type AnyTopic, edge, emit, type MemoryOf, type Processor, stage } from "../../stream/flow.ts";
import { topology } from "../../stream/topology.ts";
import { type Step, type Sum, step, toy, toys } from "../support/toy.ts";
import { publish, worker, world } from "../support/world.ts";

const into = (to: AnyTopic) =>
  edge({ name: "door", on: "POST /x", accepts: () => ({ events: [] }), admit: () => [], to });

const seen: string[] = [];
const spinning: Processor<Step, { checked: Step }> = ({ data }) => {
  seen.push(data.id);
  for (const end = performance.now() + data.worth; performance.now() < end; );
  return emit([{ output: "checked", data }]);
};

test("the fold of a batch pauses for a heartbeat about once a second", async () => {
  const slow = stage({ name: "slow", from: toys.raw, run: spinning, to: { checked: toys.checked } });
  const within = world();
  const one = worker(within, { hosting: ["slow"], topology: topology("slow", toy.deadLetters, into(toys.raw), slow) });
  publish(within, ...Array.from({ length: 13 }, (_, n) => step(`s${n}`, { worth: 200 })));
  const at: number[] = [];
  for (let partition = 0; partition < 3; partition++)
    await one.step(partition, 100, { heartbeat: async () => void at.push(seen.length) });
  expect(seen.length).toBe(13);
  // 2.6 s are spent in events; the heartbeats before remembering and before the commit come after
  // the last event.
  expect(at.filter((events) => events < 13).length).toBeGreaterThanOrEqual(2);
});

/** Sums by step of an order; the head of an order has the keys of the sums. */
type Sums = Readonly<Record<string, number>>;
const summing: Processor<Step, { sums: Sum }, Sums> = ({ data }, sums) => {
  const total = (sums[data.seen] ?? 0) + data.worth;
  const sum = { id: `${data.id}/sum`, order: data.order, owner: "o", total, cause: Object.keys(sums).sort().join(",") };
  return emit([{ output: "sums", data: sum }], { ...sums, head: (sums.head ?? 0) + 1, [data.seen]: total });
};
const inParts: MemoryOf<Sums> = {
  name: "sums",
  keyedBy: "order",
  driver: "durable",
  keysOf: ({ key }) => [key],
  furtherKeysOf: ({ key, data }, [head]) => (head === undefined ? [`${key}|a`] : [`${key}|a`, `${key}|${data.seen}`]),
  decode: (bytes) => JSON.parse(String(bytes)),
  encode: (value) => Buffer.from(JSON.stringify(value)),
  stateOf: (keys, values) =>
    Object.fromEntries(
      keys.flatMap((key, n) => (values[n] === undefined ? [] : [[n === 0 ? "head" : key.split("|")[1]!, values[n]]])),
    ),
  changes: (keys, before, after) =>
    keys.flatMap((key, n) => {
      const name = n === 0 ? "head" : key.split("|")[1]!;
      return after[name] === undefined || after[name] === before[name] ? [] : [{ key, value: after[name] }];
    }),
};
const summed = topology(
  "summed",
  toy.deadLetters,
  into(toys.claims),
  stage({ name: "sum", from: toys.claims, run: summing, memory: inParts, to: { sums: toys.sums } }),
);

test("an event meets values whose keys the first ones name, also when they come up inside a batch", async () => {
  const claims = ["a", "b", "a", "b", "c"].map((seen, n) => step(`s${n}`, { order: "o", worth: n + 1, seen }));
  const written = async (batch: number): Promise<readonly string[]> => {
    const within = world();
    const one = worker(within, { hosting: ["sum"], topology: summed });
    within.log.append(
      claims.map((data) => {
        const event = { id: data.id, key: "o", at: 1, receivedAt: 1, position: nowhere, data };
        return { topic: toys.claims.name, key: "o", value: within.wire.encode(toys.claims, event, null) };
      }),
    );
    for (let partition = 0; partition < 2; partition++) while (await one.step(partition, batch));
    return within.log
      .all(toys.sums.name)
      .map(({ value }) => within.wire.decode(toys.sums, value, nowhere).data)
      .map(({ total, cause }) => `${total} ${cause}`);
  };
  const nowhere = { topic: "", partition: 0, offset: 0 };
  const alone = await written(1);
  expect(alone).toEqual(["1 ", "2 a,head", "4 a,head", "6 a,b,head", "5 a,head"]);
  expect(await written(100)).toEqual(alone);
  expect(await written(2)).toEqual(alone);
});

test("what another event of the batch names itself is not loaded again", async () => {
  const within = world();
  const nowhere = { topic: "", partition: 0, offset: 0 };
  const pairs: MemoryOf<Sums> = {
    ...inParts,
    keysOf: ({ key, data }) => [`${key}|${data.place}`],
    furtherKeysOf: ({ key, data }) => [`${key}|${data.seen}`],
    stateOf: (keys, values) => Object.fromEntries(keys.flatMap((key, n) => (values[n] ? [[key, values[n]]] : []))),
    changes: ([own], before) => [{ key: own!, value: 1 + (before[own!] ?? 0) }],
  };
  const counting: Processor<Step, { sums: Sum }, Sums> = ({ data }, met) =>
    emit([{ output: "sums", data: { ...data, owner: "o", total: 0, cause: Object.keys(met).join() } }], met);
  const loads = async (...claims: readonly Step[]): Promise<number> => {
    let count = 0;
    within.log.append(
      claims.map((data) => {
        const event = { id: data.id, key: "o", at: 1, receivedAt: 1, position: nowhere, data };
        return { topic: toys.claims.name, key: "o", value: within.wire.encode(toys.claims, event, null) };
      }),
    );
    const one = worker(within, {
      hosting: ["sum"],
      topology: topology(
        "paired",
        toy.deadLetters,
        into(toys.claims),
        stage({ name: "sum", from: toys.claims, run: counting, memory: pairs, to: { sums: toys.sums } }),
      ),
      around: async (effect, when) => {
        if (effect === "load sum" && when === "before") count += 1;
      },
    });
    for (let partition = 0; partition < 2; partition++) while (await one.step(partition, 100));
    return count;
  };
  const at = (id: string, place: string, seen: string): Step => step(id, { order: "o", place, seen });
  expect(await loads(at("s1", "a", "z"), at("s2", "b", "z"), at("s3", "c", "z"))).toBe(2);
  expect(await loads(at("s4", "a", "b"), at("s5", "b", "a"))).toBe(1);
  expect(await loads(at("s6", "a", "c"))).toBe(2);
});

test("values of further keys may name further keys in turn, until there are none", async () => {
  // Each value names the step that was seen before it.
  const following: Processor<Step, { sums: Sum }, Readonly<Record<string, string>>> = ({ data }, met) => {
    const cause = Object.keys(met).sort().join(",");
    const sum = { id: `${data.id}/sum`, order: data.order, owner: "o", total: 0, cause };
    return emit([{ output: "sums", data: sum }], { ...met, head: data.seen, [data.seen]: met.head ?? "" });
  };
  const chained: MemoryOf<Readonly<Record<string, string>>> = {
    name: "chain",
    keyedBy: "order",
    driver: "durable",
    keysOf: ({ key, data }) => [`${key}|head`, `${key}|${data.seen}`],
    furtherKeysOf: ({ key, data }, values: readonly (string | undefined)[]) =>
      [...new Set(values)].flatMap((named) => (named && named !== data.seen ? [`${key}|${named}`] : [])),
    decode: (bytes) => String(bytes),
    encode: (value) => Buffer.from(value),
    stateOf: (keys, values) =>
      Object.fromEntries(keys.flatMap((key, n) => (values[n] === undefined ? [] : [[key.split("|")[1]!, values[n]]]))),
    changes: (keys, before, after) =>
      keys.flatMap((key) => {
        const name = key.split("|")[1]!;
        return after[name] === undefined || after[name] === before[name] ? [] : [{ key, value: after[name] }];
      }),
  };
  const topologyOf = topology(
    "chained",
    toy.deadLetters,
    into(toys.claims),
    stage({ name: "chain", from: toys.claims, run: following, memory: chained, to: { sums: toys.sums } }),
  );
  const causes = async (batch: number): Promise<readonly string[]> => {
    const within = world();
    const one = worker(within, { hosting: ["chain"], topology: topologyOf });
    within.log.append(
      ["a", "b", "c", "d"].map((seen) => {
        const data = step(`s${seen}`, { order: "o", seen });
        const event = { id: data.id, key: "o", at: 1, receivedAt: 1, position: start, data };
        return { topic: toys.claims.name, key: "o", value: within.wire.encode(toys.claims, event, null) };
      }),
    );
    for (let partition = 0; partition < 2; partition++) while (await one.step(partition, batch));
    return within.log.all(toys.sums.name).map(({ value }) => within.wire.decode(toys.sums, value, start).data.cause);
  };
  const start = { topic: "", partition: 0, offset: 0 };
  expect(await causes(1)).toEqual(["", "a,head", "a,b,head", "a,b,c,head"]);
  expect(await causes(100)).toEqual(await causes(1));
});

test("a batch is folded again when another owner changed a value between its two loads", async () => {
  const within = world();
  const nowhere = { topic: "", partition: 0, offset: 0 };
  const append = (data: Step): void => {
    const event = { id: data.id, key: "o", at: 1, receivedAt: 1, position: nowhere, data };
    within.log.append([{ topic: toys.claims.name, key: "o", value: within.wire.encode(toys.claims, event, null) }]);
  };
  const readAll = async (one: ReturnType<typeof worker>) => {
    for (let partition = 0; partition < 2; partition++) while (await one.step(partition, 100));
  };
  append(step("s0", { order: "o", worth: 1, seen: "a" }));
  await readAll(worker(within, { hosting: ["sum"], topology: summed }));
  append(step("s1", { order: "o", worth: 10, seen: "a" }));
  let loads = 0;
  const overtaken = worker(within, {
    hosting: ["sum"],
    topology: summed,
    around: async (effect, when) => {
      if (effect !== "load sum" || when !== "before" || ++loads !== 2) return;
      // The other owner decided the same claim, and wrote it under both keys.
      const { versions } = await within.memories.durable.load({
        ...{ stage: "sum", keys: ["o", "o|a"], eventIds: [], topic: toys.claims.name, partition: 0 },
      });
      await within.memories.durable.remember([
        {
          ...{ stage: "sum", topic: toys.claims.name, partition: 0, mark: 0, met: [], outcomes: [], forgets: [] },
          changes: ["o", "o|a"].map((key) => ({
            ...{ key, eventId: "other", offset: 1, position: nowhere, value: Buffer.from("100") },
            version: versions.get(key)!.at(-1)!.version + 1,
          })),
        },
      ]);
    },
  });
  await readAll(overtaken);
  expect(loads).toBeGreaterThanOrEqual(4);
  const sums = within.log.all(toys.sums.name).map(({ value }) => within.wire.decode(toys.sums, value, nowhere).data);
  expect(sums.map(({ total }) => total)).toEqual([1, 110]);
});
