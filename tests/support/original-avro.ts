// The unpatched Avro library, and records with any fields. Tests compare our faster reading and
// writing with it.
import { createRequire } from "node:module";
import type avsc from "avsc";
import fc from "fast-check";

/** A second copy of the library, in which nothing has been replaced. */
export const original = ((): typeof avsc => {
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
export const originalOf = (schema: object): avsc.Type =>
  original.Type.forSchema(schema as never, {
    typeHook: (attributes: any) => (attributes?.logicalType === "minor-units" ? amounts : undefined) as any,
  });

const text = fc.oneof(fc.string({ unit: "grapheme", maxLength: 100 }), fc.string({ maxLength: 30 }));
const amount = fc.oneof(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), fc.bigInt(-(10n ** 6n), 10n ** 6n));
/** The library accepts no larger long: one less than the largest safe integer. */
const LARGEST = Number.MAX_SAFE_INTEGER - 1;
export interface Kind {
  readonly type: any;
  readonly value: fc.Arbitrary<unknown>;
}
const minorUnits = { type: "long", logicalType: "minor-units" };
export const plainKinds: readonly Kind[] = [
  { type: "string", value: text },
  { type: "int", value: fc.oneof(fc.integer(), fc.integer({ min: -70, max: 70 })) },
  { type: "long", value: fc.oneof(fc.integer({ min: -LARGEST, max: LARGEST }), fc.integer()) },
  { type: "boolean", value: fc.boolean() },
  { type: "double", value: fc.double() },
  { type: minorUnits, value: amount },
  { type: { type: "array", items: "string" }, value: fc.array(text, { maxLength: 3 }) },
];
export const kinds: readonly Kind[] = [
  ...plainKinds,
  ...plainKinds.map(({ type, value }) => ({ type: ["null", type], value: fc.option(value) })),
  { type: ["null", "string", "int"], value: fc.option(fc.oneof(text, fc.integer())) },
];
/** Some fields have a default, and some of their values are left out. */
export const field = fc.record({ kind: fc.constantFrom(...kinds), isDefaulted: fc.boolean() });

export const recordOf = (fields: readonly { readonly kind: Kind; readonly isDefaulted: boolean }[]) => {
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
