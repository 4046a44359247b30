// Writes a record with code made for its schema: texts, numbers and "null or one of them", which
// are nearly all of an event, without a call through the type of each field.
import type avro from "avsc";

/**
 * The position of avsc in the bytes that it writes. A write that does not fit moves `pos` beyond
 * the end and writes nothing.
 */
interface WriteTap {
  readonly buf: Buffer;
  pos: number;
  readonly writeLong: (value: number) => void;
  readonly writeString: (text: string) => void;
  readonly writeFixed: (bytes: Buffer, length: number) => void;
}
/** A type of avsc, as one of its records sees it. */
interface FieldType {
  readonly typeName: string;
  readonly types?: readonly FieldType[];
  readonly _write: (tap: WriteTap, value: unknown) => void;
  readonly toBuffer: (value: unknown) => Buffer;
}
export interface RecordField {
  readonly name: string;
  readonly type: FieldType;
  readonly defaultValue: () => unknown;
}
export type WriteRecord = (tap: WriteTap, record: object) => void;

/**
 * Writes the same as avsc's own writer of these fields, faster. `amounts` is the type whose values
 * are bigint. A value that does not match the schema of its field goes to its type, which refuses
 * it as before.
 */
export const recordWriter = (fields: readonly RecordField[], amounts: avro.Type): WriteRecord => {
  const lines = fields.map(
    ({ name, type }, n) => `value = record.${name};\n${statementOf(type, `others[${n}](tap, value)`, amounts)}`,
  );
  const make = new Function(
    "others",
    "writeBranch",
    `return (tap, record) => {\nlet value;\n${lines.join("\n")}\n};`,
  ) as (others: readonly WriteOther[], writeBranch: WriteBranch) => WriteRecord;
  return make(fields.map(otherWriter), writeBranch);
};

/** The names are safe in code: avsc has checked them against the rules of Avro. */
const statementOf = (type: FieldType, other: string, amounts: avro.Type): string => {
  const plain = writesOf(type, amounts);
  if (plain !== undefined) return `if (${plain.fits}) ${plain.write}; else ${other};`;
  const held = optionalOf(type);
  const inner = held === undefined ? undefined : writesOf(held, amounts);
  if (inner === undefined) return `${other};`;
  return (
    `if (value === null) writeBranch(tap, 0);\n` +
    `else if (${inner.fits}) { writeBranch(tap, 2); ${inner.write}; } else ${other};`
  );
};

/** Whole numbers of 31 bits. Larger numbers, and values that are no number, go to the type. */
const SMALL = "value === (value | 0)";
/**
 * Bounds between which a bigint is converted to a number and written. Avro writes -n as 2n - 1,
 * which is not exact below -2^52.
 */
const SAFE = "typeof value === 'bigint' && value >= -4503599627370496n && value <= 9007199254740990n";

interface Writes {
  readonly fits: string;
  readonly write: string;
}
const writesOf = (type: FieldType, amounts: avro.Type): Writes | undefined => {
  if ((type as unknown) === amounts) return { fits: SAFE, write: "tap.writeLong(Number(value))" };
  switch (type.typeName) {
    case "string":
      return { fits: "typeof value === 'string'", write: "tap.writeString(value)" };
    case "int":
    case "long":
      return { fits: SMALL, write: "tap.writeLong(value)" };
    case "boolean":
      return { fits: "typeof value === 'boolean'", write: "writeBranch(tap, value ? 1 : 0)" };
    default:
      return undefined;
  }
};

interface TypeLike<Type> {
  readonly typeName: string;
  readonly types?: readonly Type[];
}
/** The type of a value that `["null", type]` holds. */
export const optionalOf = <Type extends TypeLike<Type>>({ typeName, types = [] }: TypeLike<Type>): Type | undefined =>
  typeName === "union:unwrapped" && types.length === 2 && types[0]!.typeName === "null" ? types[1] : undefined;

type WriteBranch = (tap: WriteTap, byte: number) => void;
const writeBranch: WriteBranch = (tap, byte) => {
  if (tap.pos < tap.buf.length) tap.buf[tap.pos] = byte;
  tap.pos += 1;
};

type WriteOther = (tap: WriteTap, value: unknown) => void;
const otherWriter = ({ type, defaultValue }: RecordField): WriteOther => {
  const missing = defaultValue();
  if (missing === undefined) return (tap, value) => type._write(tap, value);
  const bytes = type.toBuffer(missing);
  return (tap, value) => (value === undefined ? tap.writeFixed(bytes, bytes.length) : type._write(tap, value));
};
