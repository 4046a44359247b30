// The wire format: framed values, ids resolved at the start, and the handling of unknown ids.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { topic } from "../../infra/avro/codec.ts";
import { type SchemaIds, type SchemaTopic, wireWithoutIds, withIds } from "../../infra/avro/record-wire.ts";
import { inMemoryWire, openWire } from "../../infra/avro/wire.ts";
import type { Recorded } from "../../stream/flow.ts";
import { UnknownSchema, UnreadableRecord } from "../../stream/wire.ts";

interface Note {
  readonly id: string;
  readonly text: string;
}
const declared = {
  keyedBy: "id",
  partitions: 1,
  checked: false,
  idOf: ({ id }: Note) => id,
  keyOf: ({ id }: Note) => id,
};
const field = (name: string) => ({ name, type: "string" });
const notes = topic<Note>({
  ...declared,
  name: "notes",
  record: { type: "record", name: "Note", fields: [field("id"), field("text")] },
});
/** A later release's schema, with one more field that has a default. */
const newerNotes = topic<Note & { readonly mood: string }>({
  ...declared,
  name: "notes",
  record: { type: "record", name: "Note", fields: [field("id"), field("text"), { ...field("mood"), default: "calm" }] },
});

const read = { topic: "notes", partition: 0, offset: 5 };
const note = (text: string): Recorded<Note> => ({
  id: "n1",
  key: "n1",
  at: 1,
  receivedAt: 2,
  position: read,
  data: { id: "n1", text },
});
const refusal = (step: () => unknown): string => {
  try {
    step();
  } catch (error) {
    if (error instanceof UnreadableRecord) return error.code;
    throw error;
  }
  return "none";
};

test("what is encoded is decoded, whatever its size and however many before it", () => {
  const wire = inMemoryWire([notes]);
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.string(), fc.integer({ min: 0, max: 300_000 })), { minLength: 1, maxLength: 20 }),
      (texts) => {
        const values = texts.map(([text, padding]) => wire.encode(notes, note(text + "x".repeat(padding)), null));
        for (const [n, [text, padding]] of texts.entries())
          expect(wire.decode(notes, values[n]!, read)).toEqual(note(text + "x".repeat(padding)));
      },
    ),
    { numRuns: 30 },
  );
});

test("an event larger than a buffer is encoded into a larger one", () => {
  const wire = inMemoryWire([notes]);
  const value = wire.encode(notes, note("x".repeat(5_000_000)), null);
  expect(wire.decode(notes, value, read).data.text.length).toBe(5_000_000);
});

test("an event larger than any broker takes is refused", () => {
  expect(() => inMemoryWire([notes]).encode(notes, note("x".repeat(40_000_000)), null)).toThrow("larger than");
});

test("a value begins with byte 0 and its schema id", () => {
  const value = inMemoryWire([newerNotes, notes]).encode(notes, note("hi"), null);
  expect([value[0], value.readUInt32BE(1)]).toEqual([0, 2]);
});

test.each([
  ["nothing", null],
  ["an empty value", Buffer.alloc(0)],
  ["one byte", Buffer.from([0])],
  ["a header alone", Buffer.from([0, 0, 0, 0, 1])],
  ["another magic byte", Buffer.from([1, 0, 0, 0, 1, 2, 3])],
  ["JSON", Buffer.from('{"id":"n1"}')],
])("%s is not framed", (_, value) =>
  expect(refusal(() => inMemoryWire([notes]).decode(notes, value, read))).toBe("not_framed"),
);

test("a cut body is unreadable", () => {
  const wire = inMemoryWire([notes]);
  const value = wire.encode(notes, note("hello"), null);
  for (let length = 6; length < value.length; length++)
    expect(refusal(() => wire.decode(notes, value.subarray(0, length), read))).toBe("unreadable_body");
});

describe("an id not met before", () => {
  const written = inMemoryWire([notes, newerNotes]).encode(
    newerNotes,
    { ...note("hi"), data: { id: "n1", text: "hi", mood: "glad" } },
    null,
  );
  const registry = (schemas: Record<number, object>): SchemaIds & { asked: number } => ({
    asked: 0,
    idOf: async () => 1,
    async schemaOf(id) {
      this.asked++;
      return schemas[id] ?? null;
    },
  });

  test("is named by the error, learnt once, and then read by what both sides know", async () => {
    const known = registry({ 2: newerNotes.schema });
    const wire = await openWire([notes], { idOf: known.idOf, schemaOf: (id) => known.schemaOf(id) });
    expect(() => wire.decode(notes, written, read)).toThrow(new UnknownSchema(2));
    await Promise.all([wire.learn(2), wire.learn(2)]);
    await wire.learn(2);
    expect(known.asked).toBe(1);
    expect(wire.decode(notes, written, read)).toEqual(note("hi"));
  });

  test("that does not exist makes the value unreadable, and is not asked for again", async () => {
    const empty = registry({});
    const wire = await openWire([notes], { idOf: empty.idOf, schemaOf: (id) => empty.schemaOf(id) });
    await wire.learn(2);
    await wire.learn(2);
    expect(empty.asked).toBe(1);
    expect(refusal(() => wire.decode(notes, written, read))).toBe("unknown_schema");
  });

  test("stays unknown while the registry is away", async () => {
    const away = new Error("away");
    const wire = await openWire([notes], { idOf: async () => 1, schemaOf: () => Promise.reject(away) });
    await expect(wire.learn(2)).rejects.toBe(away);
    expect(() => wire.decode(notes, written, read)).toThrow(UnknownSchema);
  });

  test("of a record that has nothing to do with the topic is unreadable", async () => {
    const wire = await openWire([notes], { idOf: async () => 1, schemaOf: async () => ({ type: "string" }) });
    await wire.learn(2);
    expect(refusal(() => wire.decode(notes, written, read))).toBe("unreadable_body");
  });
});

test("opening says in one sentence which schemas are not registered and what to do", async () => {
  const empty: SchemaIds = { idOf: async () => null, schemaOf: async () => null };
  await expect(openWire([notes], empty)).rejects.toThrow(
    "the schema of notes is not registered; run: npx tributary schemas apply",
  );
});

describe("values written before their id was known", () => {
  test(
    "get the id of the schema that was kept beside them, be it an older release's, and others stay " + "as they are",
    async () => {
      const asked: SchemaTopic[] = [];
      const named = withIds(async (schema) => {
        asked.push(schema);
        return schema.schema === notes.schema ? 7 : 8;
      });
      const before = wireWithoutIds([notes]).encode(notes, note("kept"), null);
      const given = [before, before, Buffer.from([0, 0, 0, 0, 9, 1]), Buffer.from("no frame"), null].map((value) => ({
        topic: "notes",
        key: null,
        value,
      }));
      const sent = await named(given, { notes: notes.schema });
      expect(sent.slice(2)).toEqual(given.slice(2));
      expect(sent[0]!.value!.readUInt32BE(1)).toBe(7);
      // The original stays unchanged, because it may have to be sent again.
      expect(before.readUInt32BE(1)).toBe(0);
      expect(asked).toEqual([{ name: "notes", schema: notes.schema }]);
      const today = await openWire([newerNotes], {
        idOf: async () => 8,
        schemaOf: async (id) => (id === 7 ? notes.schema : null),
      });
      await today.learn(7);
      expect(today.decode(newerNotes, sent[0]!.value, read).data).toEqual({ id: "n1", text: "kept", mood: "calm" });
    },
  );

  test("without their schema they cannot be sent", async () => {
    const value = wireWithoutIds([notes]).encode(notes, note("kept"), null);
    await expect(withIds(async () => 1)([{ topic: "notes", key: null, value }], {})).rejects.toThrow(/was not kept/);
  });
});
