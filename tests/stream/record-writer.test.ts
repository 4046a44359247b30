// A record is written as avsc writes it, whatever its fields are and hold, and refused where avsc
// refuses it.
import { createRequire } from "node:module";
import avsc from "avsc";
import fc from "fast-check";
import { expect, test } from "vitest";
import { typeOf } from "../../infra/avro/avro.ts";
import { schemas } from "../../schemas/generated-avro.ts";

/** The library as it comes: a second copy of it, in which nothing has been replaced. */
const original = ((): typeof avsc => {
  const load = createRequire(import.meta.url);
  const known = Object.keys(load.cache).filter((path) => path.includes("/avsc/"));
  const kept = known.map((path) => [path, load.cache[path]] as const);
  for (const path of known) delete load.cache[path];
  const fresh = load("avsc") as typeof avsc;
  for (const [path, module] of kept) load.cache[path] = module;
  return fresh;
})();
const amounts = original.types.LongType.__with({
  fromBuffer: (bytes: Buffer) => bytes.readBigInt64LE(),
  toBuffer: (amount: bigint) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(amount);
    return bytes;
  },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (amount: unknown) => typeof amount === "bigint" && BigInt.asIntN(64, amount) === amount,
  compare: () => 0,
});
const originalOf = (schema: object): avsc.Type =>
  original.Type.forSchema(schema as never, {
    typeHook: (attributes: any) => (attributes?.logicalType === "minor-units" ? amounts : undefined) as any,
  });

const text = fc.oneof(fc.string({ unit: "grapheme", maxLength: 100 }), fc.string({ maxLength: 30 }));
const amount = fc.oneof(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.bigInt(-(10n ** 6n), 10n ** 6n));
interface Kind {
  readonly type: any;
  readonly value: fc.Arbitrary<unknown>;
}
const minorUnits = { type: "long", logicalType: "minor-units" };
const plain: readonly Kind[] = [
  { type: "string", value: text },
  { type: "int", value: fc.oneof(fc.integer(), fc.integer({ min: -70, max: 70 })) },
  { type: "long", value: fc.oneof(fc.maxSafeInteger(), fc.integer()) },
  { type: "boolean", value: fc.boolean() },
  { type: "double", value: fc.double() },
  { type: minorUnits, value: amount },
  { type: { type: "array", items: "string" }, value: fc.array(text, { maxLength: 3 }) },
];
const kinds: readonly Kind[] = [
  ...plain,
  ...plain.map(({ type, value }) => ({ type: ["null", type], value: fc.option(value) })),
  { type: ["null", "string", "int"], value: fc.option(fc.oneof(text, fc.integer())) },
];
/** A field now and then has a default, and its value is left out now and then. */
const field = fc.record({ kind: fc.constantFrom(...kinds), isDefaulted: fc.boolean() });

const recordOf = (fields: readonly { readonly kind: Kind; readonly isDefaulted: boolean }[]) => {
  const named = fields.map(({ kind: { type, value }, isDefaulted }, n) => {
    const hasDefault = isDefaulted && Array.isArray(type);
    const one = { name: `f${n}`, type, ...(hasDefault && { default: null }) };
    return { one, value: hasDefault ? fc.option(value, { nil: undefined, freq: 3 }) : value };
  });
  return {
    schema: { type: "record", name: "Any", fields: named.map(({ one }) => one) },
    value: fc.record(Object.fromEntries(named.map(({ one, value }) => [one.name, value]))),
  };
};

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
