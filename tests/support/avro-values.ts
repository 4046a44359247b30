// Values of any Avro schema, and bytes that were altered or cut.
import fc from "fast-check";

/** Values that a schema allows, including unusual ones. */
export const valuesOf = (schema: any, named = new Map<string, any>()): fc.Arbitrary<unknown> => {
  if (Array.isArray(schema)) return fc.option(valuesOf(schema[1], named), { freq: 2 });
  const type = typeof schema === "string" ? (named.get(schema) ?? { type: schema }) : schema;
  if (type.name !== undefined) named.set(type.name, type);
  switch (type.type) {
    case "boolean":
      return fc.boolean();
    case "int":
      return fc.integer();
    case "long":
      return type.logicalType === "minor-units"
        ? fc.oneof(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), fc.bigInt({ min: -1_000n, max: 10n ** 6n }))
        : fc.oneof(fc.integer({ min: -(2 ** 52), max: 2 ** 52 }), fc.integer({ min: 0, max: 4_000_000_000_000 }));
    case "string":
      return fc.oneof(fc.string({ unit: "grapheme" }), fc.string({ minLength: 100, maxLength: 300 }));
    case "enum":
      return fc.constantFrom(...type.symbols);
    case "fixed":
      return fc.uint8Array({ minLength: type.size, maxLength: type.size }).map((bytes) => Buffer.from(bytes));
    case "array":
      return fc.array(valuesOf(type.items, named), { maxLength: 70, size: "small" });
    case "record":
      return fc.record(
        Object.fromEntries(type.fields.map((field: any) => [field.name, valuesOf(field.type, named)] as const)),
      );
    default:
      throw new Error(`no values of ${JSON.stringify(schema)}`);
  }
};

/** Damages bytes: changes them in a few places, or cuts them. */
export const damage = fc.record({
  changes: fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 3 }),
  cut: fc.option(fc.nat(), { freq: 2 }),
});
export type Damage = typeof damage extends fc.Arbitrary<infer T> ? T : never;
export const damaged = (bytes: Buffer, { changes, cut }: Damage): Buffer => {
  const copy = Buffer.from(bytes);
  for (const [at, byte] of changes) if (copy.length > 0) copy[at % copy.length] = byte;
  return cut === null ? copy : copy.subarray(0, cut % (copy.length + 1));
};
/** Turns a value that a library has read into plain objects. */
export const plain = (value: any): any =>
  Buffer.isBuffer(value) || typeof value !== "object" || value === null
    ? value
    : Array.isArray(value)
      ? value.map(plain)
      : Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]));
