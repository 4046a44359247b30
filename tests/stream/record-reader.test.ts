// A record of any fields is read as avsc reads it, and refused if avsc refuses it: bytes of the log
// may be cut or altered.
import type avsc from "avsc";
import fc from "fast-check";
import { expect, test } from "vitest";
import { typeOf } from "../../infra/avro/avro.ts";
import { schemas } from "../../schemas/generated-avro.ts";
import { damage, damaged, plain } from "../support/avro-values.ts";
import { field, kinds, originalOf, recordOf } from "../support/original-avro.ts";

/** The value and where it ends; the same word for every record that cannot be read. */
const readBy = (type: avsc.Type, bytes: Buffer): unknown => {
  try {
    const { value, offset } = type.decode(bytes, 0);
    return offset < 0 ? "unreadable" : { value: plain(value), offset };
  } catch {
    return "unreadable";
  }
};
const isSame = (schema: object, bytes: Buffer): void =>
  expect(readBy(typeOf(schema), bytes)).toEqual(readBy(originalOf(schema), bytes));

test("any record is the same value, and cut short it is unreadable alike", () => {
  fc.assert(
    fc.property(fc.array(field, { minLength: 1, maxLength: 20 }), fc.gen(), fc.nat(), (fields, gen, cut) => {
      const { schema, value } = recordOf(fields);
      const bytes = originalOf(schema).toBuffer(gen(() => value));
      isSame(schema, bytes);
      isSame(schema, bytes.subarray(0, cut % (bytes.length + 1)));
    }),
    { numRuns: 400 },
  );
});

/** Excludes lists: avsc reads a list whose count was altered to billions item by item. */
const single = kinds.filter(({ type }) => !JSON.stringify(type).includes("array"));

test("altered bytes are the same value, or unreadable alike", () => {
  const fields = fc.array(fc.record({ kind: fc.constantFrom(...single), isDefaulted: fc.constant(false) }), {
    minLength: 1,
    maxLength: 12,
  });
  fc.assert(
    fc.property(fields, fc.gen(), fc.array(damage, { minLength: 1, maxLength: 10 }), (fields, gen, damages) => {
      const { schema, value } = recordOf(fields);
      const bytes = originalOf(schema).toBuffer(gen(() => value));
      for (const one of damages) isSame(schema, damaged(bytes, one));
    }),
    { numRuns: 500 },
  );
});

test("a text is its own, whatever the same field held before", () => {
  const schema = { type: "record", name: "One", fields: [{ name: "f", type: "string" }] };
  const [mine, written] = [typeOf(schema), originalOf(schema)];
  // Few letters, so that cached texts of one place differ by only a unit or two.
  const alike = fc.oneof(
    fc.string({ unit: fc.constantFrom("a", "b", "é", "\u007f"), maxLength: 34 }),
    fc.string({ unit: "binary", maxLength: 4 }),
  );
  fc.assert(
    fc.property(fc.array(alike, { maxLength: 200 }), (texts) => {
      const read = texts.map((f) => (mine.fromBuffer(written.toBuffer({ f })) as { readonly f: string }).f);
      expect(read).toEqual(texts.map((f) => Buffer.from(f).toString()));
    }),
    { numRuns: 100 },
  );
  // Bytes that are no valid text, after a text of the same length.
  const bytes = [Buffer.from("\u0006aéa"), Buffer.from([4, 0xc3, 0x28]), Buffer.from([4, 0xff, 0xfd])];
  for (const one of [...bytes, ...bytes]) isSame(schema, one);
  for (const one of [...bytes, ...bytes]) expect(readBy(mine, one)).toEqual(readBy(written, one));
});

test("random records of every schema of the log are the same values", () => {
  for (const schema of Object.values(schemas)) {
    const [mine, wanted] = [typeOf(schema), originalOf(schema)];
    for (let n = 0; n < 50; n += 1) {
      const bytes = wanted.toBuffer(wanted.random());
      expect(plain(mine.fromBuffer(bytes)), schema.name).toEqual(plain(wanted.fromBuffer(bytes)));
    }
  }
});
