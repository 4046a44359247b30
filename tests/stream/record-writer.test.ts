// A record of any fields is written as avsc writes it, and refused if avsc refuses it.
import avsc from "avsc";
import fc from "fast-check";
import { expect, test } from "vitest";
import { typeOf } from "../../infra/avro/avro.ts";
import { schemas } from "../../schemas/generated-avro.ts";
import { field, kinds, original, originalOf, recordOf } from "../support/original-avro.ts";

test("the library that is compared with is another copy", () =>
  expect(original.types.RecordType).not.toBe(avsc.types.RecordType));

test("any record is the same bytes, and one that does not fit says by how much alike", () => {
  fc.assert(
    fc.property(fc.array(field, { minLength: 1, maxLength: 20 }), fc.gen(), fc.nat(200), (fields, gen, less) => {
      const { schema, value } = recordOf(fields);
      const given = gen(() => value);
      const wanted = originalOf(schema).toBuffer(given);
      expect(typeOf(schema).toBuffer(given).equals(wanted)).toBe(true);
      const room = Math.max(0, wanted.length - less);
      const end = typeOf(schema).encode(given, Buffer.alloc(room), 0);
      expect(end >= 0).toBe(room === wanted.length);
    }),
    { numRuns: 400 },
  );
});

test("an amount is itself at every power of two, where numbers lose their last digit", () => {
  const type = { type: "long", logicalType: "minor-units" };
  const schema = { type: "record", name: "One", fields: [{ name: "f", type }] };
  const at = Array.from({ length: 63 }, (_, n) => [2n ** BigInt(n), -(2n ** BigInt(n))]).flat();
  for (const value of at.flatMap((one) => [one - 1n, one, one + 1n]))
    expect(typeOf(schema).fromBuffer(typeOf(schema).toBuffer({ f: value })).f, String(value)).toBe(value);
});

test("what a field cannot hold is refused, and nothing else", () => {
  const wrong = fc.oneof(
    fc.constantFrom(undefined, null, 1.5, 2 ** 40, 2 ** 60, Number.NaN, "7", true, {}, [], -0),
    fc.bigInt(),
  );
  const outcome = (write: () => Buffer): string => {
    try {
      return write().toString("hex");
    } catch {
      return "refused";
    }
  };
  fc.assert(
    fc.property(fc.constantFrom(...kinds), wrong, ({ type }, value) => {
      const schema = { type: "record", name: "One", fields: [{ name: "f", type }] };
      expect(outcome(() => typeOf(schema).toBuffer({ f: value }))).toBe(
        outcome(() => originalOf(schema).toBuffer({ f: value })),
      );
    }),
    { numRuns: 1_000 },
  );
});

test("random records of every schema of the log are the same bytes", () => {
  for (const schema of Object.values(schemas)) {
    const [mine, wanted] = [typeOf(schema), originalOf(schema)];
    for (let n = 0; n < 50; n += 1) {
      const record = wanted.random();
      expect(mine.toBuffer(record).equals(wanted.toBuffer(record)), schema.name).toBe(true);
    }
  }
});
