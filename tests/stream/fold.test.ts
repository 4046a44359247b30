// One batch in one stage: states are read in order, duplicates inside the batch are found, and
// refused events keep their bytes.
import { expect, test } from "vitest";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { chain } from "../../stream/chain.ts";
import type { Recorded } from "../../stream/flow.ts";
import { fold, ProcessorThrew, type StageInput } from "../../stream/fold.ts";
import type { LoadedMemory } from "../../stream/memory/memory.ts";
import { type Step, type Sum, step, toy, toys } from "../support/toy.ts";

const wire = inMemoryWire(Object.values(toys));
const nothing: LoadedMemory = { versions: new Map(), outcomes: new Map(), truncated: new Map(), mark: null };
const hostedOf = (name: string, ...names: string[]) => chain(toy, [name, ...names]).hosted;
const given = (data: Step, offset: number, position = { topic: "toy.raw", partition: 0, offset }): StageInput => ({
  event: { id: data.id, key: data.place, at: 1, receivedAt: 2, position, data },
  source: {
    offset,
    key: Buffer.from(data.place),
    value: Buffer.from(`original ${offset}`),
    headers: {},
    appendedAt: 0,
  },
});
const claim = (data: Step, offset: number): StageInput => ({
  ...given(data, offset),
  event: { ...given(data, offset).event, key: data.order },
});
const decodedSums = (outputs: readonly { readonly value: Buffer | null }[]): readonly Sum[] =>
  outputs.map(({ value }) => wire.decode(toys.sums, value, { topic: "toy.sums", partition: 0, offset: 0 }).data);

test("an event meets what those before it in the batch have left", () => {
  const [walk] = hostedOf("walk");
  const { outputs, remembers } = fold(
    walk!,
    [given(step("a"), 0), given(step("b"), 1), given(step("c"), 2)],
    () => null,
    nothing,
    wire,
  );
  const seen = outputs.map(
    ({ value }) => wire.decode(toys.walked, value, { topic: "", partition: 0, offset: 0 }).data.seen,
  );
  expect(seen).toEqual(["", "a", "a,b"]);
  expect(remembers?.changes.map(({ eventId, offset, value }) => [eventId, offset, String(value)])).toEqual([
    ["a", 0, '["a"]'],
    ["b", 1, '["a","b"]'],
    ["c", 2, '["a","b","c"]'],
  ]);
});

test("a durable value is read and written once a batch, however many events meet it", () => {
  const [settle] = hostedOf("settle");
  const memory = settle!.stage.memory!;
  const calls = { decode: 0, encode: 0 };
  const counting = {
    ...settle!,
    stage: {
      ...settle!.stage,
      memory: {
        ...memory,
        decode: (bytes: Uint8Array) => {
          calls.decode += 1;
          return memory.decode(bytes);
        },
        encode: (value: unknown) => {
          calls.encode += 1;
          return memory.encode(value);
        },
      },
    },
  };
  const claims = ["a", "b", "c"].map((id, n) => claim(step(id, { order: "o", worth: 10 }), n));
  const value = Buffer.from('{"total":5,"steps":1}');
  const loaded = { ...nothing, versions: new Map([["o", [{ eventId: "x", offset: 0, version: 7, value }]]]) };
  const { outputs, remembers } = fold(counting, claims, () => 1, loaded, wire);
  expect(decodedSums(outputs).map(({ total }) => total)).toEqual([15, 25, 35]);
  expect(calls).toEqual({ decode: 1, encode: 1 });
  expect(remembers!.changes.map((one) => [one.eventId, one.version, String(one.value)])).toEqual([
    ["c", 10, '{"total":35,"steps":4}'],
  ]);
  expect(remembers!.met).toEqual([{ key: "o", version: 7 }]);
});

test("a value that cannot be written stops at the event that left it", () => {
  const [settle] = hostedOf("settle");
  const broken = {
    ...settle!,
    stage: {
      ...settle!.stage,
      memory: {
        ...settle!.stage.memory!,
        encode: () => {
          throw new TypeError("no bytes for it");
        },
      },
    },
  };
  const claims = [claim(step("a", { order: "o", worth: 10 }), 3), claim(step("b", { order: "o", worth: 10 }), 4)];
  expect(() => fold(broken, claims, () => 1, nothing, wire)).toThrow(
    expect.objectContaining({ name: "ProcessorThrew", offset: 4 }),
  );
});

test("the state as received makes no version", () => {
  const [walk] = hostedOf("walk");
  expect(fold(walk!, [given(step("a", { worth: 1 }), 0)], () => null, nothing, wire).remembers?.changes).toEqual([]);
});

test("an event meets the newest version older than itself, whatever has been written later", () => {
  const [walk] = hostedOf("walk");
  const version = (eventId: string, offset: number) => ({
    eventId,
    offset,
    version: 0,
    value: Buffer.from(`["${eventId}"]`),
  });
  const loaded = {
    ...nothing,
    versions: new Map([["here", [version("old", 3), version("a", 5), version("young", 9)]]]),
  };
  const { next, outputs, remembers } = fold(walk!, [given(step("a"), 5)], () => null, loaded, wire);
  expect(next).toEqual([]);
  expect(wire.decode(toys.walked, outputs[0]!.value!, { topic: "", partition: 0, offset: 0 }).data.seen).toBe("old");
  expect(remembers?.changes).toEqual([]);
});

test("an event that comes twice in fast memory meets what it met the first time, and is remembered once", () => {
  const [walk] = hostedOf("walk");
  const { outputs, remembers } = fold(walk!, [given(step("a"), 0), given(step("a"), 1)], () => null, nothing, wire);
  const [first, second] = outputs.map(
    ({ value }) => wire.decode(toys.walked, value, { topic: "", partition: 0, offset: 0 }).data,
  );
  expect(second).toEqual(first);
  expect(remembers?.changes).toHaveLength(1);
});

test("an event that comes twice in durable memory is answered with its first outcome, byte for byte", () => {
  const [settle] = hostedOf("settle");
  let factor = 1;
  const changing = () => factor++;
  const order = { order: "o", worth: 10 };
  const { outputs, remembers, counts } = fold(
    settle!,
    [claim(step("a", order), 0), claim(step("a", order), 1)],
    changing,
    nothing,
    wire,
  );
  expect(outputs[1]!.value!.equals(outputs[0]!.value!)).toBe(true);
  expect(decodedSums(outputs).map(({ total }) => total)).toEqual([10, 10]);
  expect(remembers?.outcomes.map(({ eventId }) => eventId)).toEqual(["a"]);
  expect(counts).toMatchObject({ events: 2, emitting: 1, recalled: 1 });
});

test("an outcome recorded earlier is answered although the event would now be decided otherwise", () => {
  const [settle] = hostedOf("settle");
  const before = fold(settle!, [claim(step("a", { order: "o", worth: 10 }), 0)], () => 1, nothing, wire);
  const outcomes = new Map(before.remembers!.outcomes.map(({ eventId, bytes }) => [eventId, bytes]));
  const again = fold(
    settle!,
    [claim(step("a", { order: "o", worth: 99 }), 7)],
    () => 5,
    { ...nothing, outcomes },
    wire,
  );
  expect(again.outputs).toEqual(before.outputs);
  expect(again.remembers).toMatchObject({ changes: [], met: [], outcomes: [] });
});

test("a drop is recorded too, and answered with nothing", () => {
  const [settle] = hostedOf("settle");
  const before = fold(settle!, [claim(step("a", { order: "o", worth: 0 }), 0)], () => 1, nothing, wire);
  const outcomes = new Map(before.remembers!.outcomes.map(({ eventId, bytes }) => [eventId, bytes]));
  const again = fold(
    settle!,
    [claim(step("a", { order: "o", worth: 10 }), 1)],
    () => 1,
    { ...nothing, outcomes },
    wire,
  );
  expect(before.counts.dropped).toEqual(new Map([["nothing", 1]]));
  expect(again).toMatchObject({ outputs: [], counts: { recalled: 1 } });
});

test("durable versions count the changes of a key, however the batch is cut", () => {
  const [settle] = hostedOf("settle");
  const claims = ["a", "b", "c"].map((id, offset) => claim(step(id, { order: "o" }), offset));
  const { remembers } = fold(settle!, claims, () => 1, nothing, wire);
  expect(remembers).toMatchObject({
    met: [{ key: "o", version: 0 }],
    changes: [{ key: "o", version: 3, eventId: "c" }],
  });
});

test("a reject leaves nothing behind and keeps the bytes of the log when the stage is the first one hosted", () => {
  const [check] = hostedOf("check");
  const { refused, outputs, counts } = fold(check!, [given(step("a", { worth: -1 }), 4)], () => null, null, wire);
  expect(refused).toMatchObject([{ reason: "negative", topic: "toy.raw", value: Buffer.from("original 4") }]);
  expect(outputs).toEqual([]);
  expect(counts.rejected).toEqual(new Map([["negative", 1]]));
});

test("a reject of a later stage keeps the bytes that its own topic would hold", () => {
  const [, walk] = hostedOf("check", "walk");
  const one = given(step("a", { worth: 1000 }), 4);
  const { refused, remembers } = fold(walk!, [one], () => null, nothing, wire);
  const event: Recorded<Step> = wire.decode(toys.checked, refused[0]!.value, {
    topic: "elsewhere",
    partition: 9,
    offset: 9,
  });
  expect(event).toEqual(one.event);
  expect(refused[0]!.key).toEqual(Buffer.from("here"));
  expect(remembers).toMatchObject({ changes: [], outcomes: [] });
});

test("an output on another key starts a chain of its own, one on the same key keeps its origin", () => {
  const [point] = hostedOf("point");
  const { outputs } = fold(point!, [given(step("a", { order: "o" }), 5)], () => 1, nothing, wire);
  const read = { topic: "read", partition: 1, offset: 77 };
  expect(wire.decode(toys.out, outputs[0]!.value!, read).position).toEqual({
    topic: "toy.raw",
    partition: 0,
    offset: 5,
  });
  expect(wire.decode(toys.claims, outputs[1]!.value!, read).position).toEqual(read);
});

test("a processor that throws names the message at which the worker stops", () => {
  const [check] = hostedOf("check");
  const poison = [given(step("a"), 7), given(step("b", { worth: 666 }), 8)];
  const error = (() => {
    try {
      return fold(check!, poison, () => null, null, wire);
    } catch (caught) {
      return caught;
    }
  })();
  expect(error).toBeInstanceOf(ProcessorThrew);
  expect(error).toMatchObject({ stage: "check", offset: 8, message: "check threw: check cannot count" });
});

test(
  "only the newest hundred versions of a key stay beside those of the batch, and older events are " +
    "counted as truncated",
  () => {
    const [walk] = hostedOf("walk");
    const versions = Array.from({ length: 105 }, (_, n) => ({
      eventId: `e${n}`,
      offset: n,
      version: 0,
      value: Buffer.from("[]"),
    }));
    const loaded = { ...nothing, versions: new Map([["here", versions]]) };
    expect(fold(walk!, [given(step("x"), 200)], () => null, loaded, wire).remembers?.forgets).toEqual([
      { key: "here", eventIds: ["e0", "e1", "e2", "e3", "e4"], before: 4 },
    ]);
    const later = { ...nothing, versions: new Map([["here", versions.slice(5)]]), truncated: new Map([["here", 4]]) };
    expect(fold(walk!, [given(step("y"), 3)], () => null, later, wire).counts.truncated).toBe(1);
  },
);
