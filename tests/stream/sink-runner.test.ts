// How a topic gets into stores: one write for each fetch, only bad rows are set aside, and offsets
// come last.

import { expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { classify } from "../../infra/runtime/errors.ts";
import { deadLetterOf } from "../../stream/dead-letters.ts";
import { type AnySink, marks, type Sink, sink } from "../../stream/flow.ts";
import type { Control, InputMessage, OutputMessage } from "../../stream/messages.ts";
import type { SinkPorts, WriteCounts } from "../../stream/ports.ts";
import { sinkRunner } from "../../stream/sink/sink-runner.ts";
import { type Step, step, toy, toys } from "../support/toy.ts";

interface Row {
  readonly id: string;
  readonly worth: number;
}
const wire = inMemoryWire(Object.values(toys));
const table = (store: "clickhouse" | "postgres", name = "rows"): Sink<Step, Row>["into"] => ({
  name,
  store,
  key: ["id"],
  tenantOf: ({ worth }) => worth % 10,
  write: (rows, write) => write({ name }, rows),
});
const storing = (into = table("postgres")): AnySink =>
  sink<Step, Row>({
    name: `to-${into.name}`,
    from: toys.out,
    rows: ({ data }) => {
      if (data.worth === 404) throw new Error("no such row");
      return data.worth === 0 ? [] : [{ id: data.id, worth: data.worth }];
    },
    into,
  }) as AnySink;
const messagesOf = (...steps: readonly Step[]): readonly InputMessage[] =>
  steps.map((data, offset) => {
    const event = {
      id: data.id,
      key: data.place,
      at: 1,
      receivedAt: 2,
      position: { topic: "toy.raw", partition: 0, offset },
      data,
    };
    return {
      offset,
      key: Buffer.from(data.place),
      value: wire.encode(toys.out, event, null),
      headers: {},
      appendedAt: 0,
    };
  });

/** Stores that refuse a worth of -1 as bad data, and record every call. */
const running = (sinks: readonly AnySink[], over: Partial<SinkPorts> = {}) => {
  const effects: string[] = [];
  const stored: Row[] = [];
  const letters: OutputMessage[] = [];
  const counts: WriteCounts[] = [];
  const tokens: string[] = [];
  const store: SinkPorts["stores"]["postgres"] = {
    within: async ({ tenants, token }, work) => {
      const rows: Row[] = [];
      await work(async (_, given) => void rows.push(...(given as Row[])));
      effects.push(`write ${rows.map(({ id }) => id).join(",")} for ${[...tenants].join(",")}`);
      tokens.push(token);
      if (rows.some(({ worth }) => worth === -1))
        throw Object.assign(new Error("worth must be positive"), { verdict: "data" });
      stored.push(...rows);
    },
  };
  const process = sinkRunner(sinks, {
    wire,
    stores: { postgres: store, clickhouse: store, redis: store },
    produce: async (messages) => {
      effects.push(`letters ${messages.length}`);
      letters.push(...messages);
    },
    deadLetters: toy.deadLetters,
    deadLetter: (letter) => deadLetterOf(letter, 0),
    retry: (_, one) => one(),
    classify,
    run: "run1",
    stops: async () => 3,
    log: { info: () => undefined, warn: () => undefined, error: (event) => void effects.push(event) },
    countWrite: (one) => counts.push(one),
    ...over,
  });
  const give = (partition: number, messages: readonly InputMessage[], control: Partial<Control> = {}) =>
    process(
      { topic: "toy.out", partition, messages },
      {
        commit: async (offset) => void effects.push(`commit ${partition}@${offset}`),
        heartbeat: async () => undefined,
        isCurrent: () => true,
        seek: () => undefined,
        readOn: () => undefined,
        rest: () => undefined,
        ...control,
      },
    );
  return { give, effects, stored, letters, counts, tokens };
};

test("the batches of one fetch join one write, then each partition commits", async () => {
  const { give, effects, tokens } = running([storing()]);
  await Promise.all([give(0, messagesOf(step("a"), step("b"))), give(2, messagesOf(step("c", { worth: 13 })))]);
  expect(effects).toEqual(["write a,b,c for 2,3", "commit 0@2", "commit 2@1"]);
  expect(tokens).toEqual(["run1/toy.out/0:0-1x2,2:0-0x1/rows"]);
});

test("what arrives during a write is written after it", async () => {
  const { give, effects } = running([storing()]);
  const first = give(0, messagesOf(step("a")));
  await new Promise((resolve) => setImmediate(resolve));
  await Promise.all([first, give(1, messagesOf(step("b")))]);
  expect(effects).toEqual(["write a for 2", "commit 0@1", "write b for 2", "commit 1@1"]);
});

test("sinks of one topic share a batch, which is committed when all have written it", async () => {
  const { give, effects, counts } = running([storing(table("clickhouse", "one")), storing(table("postgres", "two"))]);
  await give(0, messagesOf(step("a")));
  expect(effects).toEqual(["write a for 2", "write a for 2", "commit 0@1"]);
  expect(counts.map(({ sink: name, rows, receivedAt }) => [name, rows, receivedAt])).toEqual([
    ["to-one", 1, [2]],
    ["to-two", 1, [2]],
  ]);
});

test(
  "a row that the store refuses for its data is found and set aside with the store's reason, and " +
    "the rest is stored in order",
  async () => {
    const { give, effects, stored, letters, counts } = running([storing()]);
    await give(0, messagesOf(...["a", "b", "c", "d", "e"].map((id) => step(id, { worth: id === "d" ? -1 : 2 }))));
    expect(stored.map(({ id }) => id)).toEqual(["a", "b", "c", "e"]);
    expect(letters).toMatchObject([
      {
        topic: "toy.dlq",
        headers: {
          "tributary-code": "refused_by_store",
          "tributary-stage": "to-rows",
          "__connect.errors.exception.message": "worth must be positive",
        },
      },
    ]);
    expect(letters[0]!.headers!["__connect.errors.offset"]).toBe("3");
    expect(effects.slice(-2)).toEqual(["letters 1", "commit 0@5"]);
    expect(counts).toMatchObject([{ rows: 4, rejected: new Map([["refused_by_store", 1]]) }]);
  },
);

test("a row that cannot be mapped and unreadable bytes are set aside, original bytes kept", async () => {
  const { give, letters, stored, counts } = running([storing(), storing(table("clickhouse", "others"))]);
  const [bad, good] = messagesOf(step("a", { worth: 404 }), step("b"));
  const garbage = { offset: 2, key: null, value: Buffer.from("garbage"), headers: {}, appendedAt: 0 };
  await give(0, [bad!, good!, garbage]);
  expect(stored.map(({ id }) => id)).toEqual(["b", "b"]);
  expect(counts.map(({ rejected }) => Object.fromEntries(rejected))).toEqual([
    { not_framed: 1, unmappable_row: 1 },
    { unmappable_row: 1 },
  ]);
  expect(letters.map(({ topic, value, headers }) => [topic, value, headers!["tributary-code"]])).toEqual([
    ["unreadable.dlq", garbage.value, "not_framed"],
    ["toy.dlq", bad!.value, "unmappable_row"],
    ["toy.dlq", bad!.value, "unmappable_row"],
  ]);
});

test("an event without rows costs no write", async () => {
  const { give, effects } = running([storing()]);
  await give(0, messagesOf(step("a", { worth: 0 })));
  expect(effects).toEqual(["commit 0@1"]);
});

test("a dead letter that cannot be written holds every offset", async () => {
  const produce = async () => {
    throw new Error("the log is full");
  };
  const { give, effects } = running([storing()], { produce });
  const given = [give(0, messagesOf(step("a", { worth: 404 }))), give(1, messagesOf(step("b")))];
  expect((await Promise.allSettled(given)).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(effects).toEqual(["write b for 2", "stage.stuck", "stage.stuck"]);
});

test("an error that is not of the data stops the sink and sets nothing aside", async () => {
  const { give, letters, effects } = running([
    storing({ ...table("postgres"), write: () => Promise.reject(new Error("no such table")) }),
  ]);
  await expect(give(0, messagesOf(step("a"), step("b")))).rejects.toThrow("no such table");
  expect([letters, effects]).toEqual([[], ["stage.stuck"]]);
});

test("a partition that was lost is not committed, the others are", async () => {
  const { give, effects } = running([storing()]);
  const gone = new Error("the group has moved on");
  let answers = 1;
  const parts = await Promise.allSettled([
    give(0, messagesOf(step("a", { worth: -1 }), step("b")), { heartbeat: () => Promise.reject(gone) }),
    give(1, messagesOf(step("c"))),
    give(2, messagesOf(step("d")), { isCurrent: () => answers-- > 0 }),
    give(3, messagesOf(step("e")), { isCurrent: () => false }),
  ]);
  expect(parts.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled", "fulfilled"]);
  expect((parts[0] as PromiseRejectedResult).reason).toBe(gone);
  expect(effects.filter((effect) => effect.startsWith("commit"))).toEqual(["commit 1@1"]);
});

test("sinks of two topics are not hosted together", () => {
  const other = { ...storing(), from: toys.raw } as AnySink;
  expect(() => sinkRunner([storing(), other], {} as never)).toThrow(
    "to-rows reads toy.raw and to-rows reads toy.out: host them apart",
  );
});

test("what a write touched is marked after the rows and before the offsets, refused rows or not", async () => {
  const touched = table("postgres", "touched");
  const into = {
    ...table("clickhouse"),
    marks: marks((rows: readonly Row[]) => [{ id: `mark of ${rows.length}`, worth: 7 }], touched),
  };
  const { effects, give, letters } = running([storing(into)]);
  await give(0, messagesOf(step("a", { worth: 1 }), step("b", { worth: -1 })));
  expect(effects).toEqual([
    "write a,b for 1,-1",
    "write a for 1",
    "write b for -1",
    "write mark of 2 for 7",
    "letters 1",
    "commit 0@2",
  ]);
  expect(letters).toHaveLength(1);
});
test("a mark that cannot be written holds the offsets and makes no dead letter", async () => {
  const into = {
    ...table("clickhouse"),
    marks: marks((_: readonly Row[]) => [{ id: "mark", worth: -1 }], table("postgres", "touched")),
  };
  const { effects, give } = running([storing(into)]);
  await expect(give(0, messagesOf(step("a", { worth: 1 })))).rejects.toThrow("worth must be positive");
  expect(effects.filter((effect) => /letters|commit/.test(effect))).toEqual([]);
});

test("what may not be written any more is neither mapped nor stored, is counted, and its offset moves on", async () => {
  const asked: string[] = [];
  const { give, stored, effects, counts, letters } = running([storing()], {
    withholds: async () => (event, read) => {
      asked.push(`${event.id} at ${read.topic}-${read.partition}@${read.offset}`);
      return event.id === "gone";
    },
  });
  await give(1, messagesOf(step("a"), step("gone", { worth: 404 }), step("b")));
  expect(stored.map(({ id }) => id)).toEqual(["a", "b"]);
  expect(asked[1]).toBe("gone at toy.out-1@1");
  expect(effects.at(-1)).toBe("commit 1@3");
  expect([counts[0], letters]).toMatchObject([{ rows: 2, withheld: 1 }, []]);
});

test("while it is unknown what may be written nothing is", async () => {
  const unknown = new Error("the list cannot be read");
  const { give, stored, effects } = running([storing()], { withholds: () => Promise.reject(unknown) });
  await expect(give(0, messagesOf(step("a")))).rejects.toBe(unknown);
  expect([stored, effects]).toEqual([[], ["stage.stuck"]]);
});
