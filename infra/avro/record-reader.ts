// Reads a record with code made for its schema: texts, numbers, "null or one of them" and empty
// lists, which are nearly all of an event, without a call through the type of each field.
import type avro from "avsc";
import { optionalOf } from "./record-writer.ts";

/**
 * The position of avsc in the bytes that it reads. A position beyond their end means that they were
 * cut short.
 */
export interface ReadTap {
  readonly buf: Buffer;
  pos: number;
}
/** A type of avsc, as one of its records sees it. */
export interface ReadType {
  readonly typeName: string;
  readonly types?: readonly ReadType[];
  readonly _read: ReadValue;
}
type ReadValue = (tap: ReadTap) => unknown;
export type RecordClass = new (...values: any[]) => object;

/**
 * Returns the same as avsc's own reader of these types, faster. `amounts` is the type whose values
 * are bigint. Bytes that are unusual, cut short or against the schema are read by the type itself,
 * which refuses them as before.
 */
export const recordReader = (
  types: readonly ReadType[],
  amounts: avro.Type,
  made: RecordClass,
): ((tap: ReadTap) => object) => {
  const names = types.map((_, n) => `read${n}`);
  // Arguments are evaluated from left to right, which is the order of the fields.
  const given = types.map((type, n) => argumentOf(type, `${names[n]}(tap)`));
  const make = new Function("Made", ...names, `return (tap) => new Made(\n${given.join(",\n")}\n);`);
  return make(made, ...types.map((type) => readerOf(type, amounts)));
};

/** Null and an empty list are both the byte 0. */
const argumentOf = (type: ReadType, read: string): string => {
  const nothing = type.typeName === "array" ? "[]" : optionalOf(type) === undefined ? undefined : "null";
  return nothing === undefined ? read : `tap.buf[tap.pos] === 0 ? (tap.pos++, ${nothing}) : ${read}`;
};

const readerOf = (type: ReadType, amounts: avro.Type): ReadValue => {
  const held = optionalOf(type);
  const plain = held ?? type;
  const isHeld = held !== undefined;
  if ((plain as unknown) === amounts) return amountReader(type, isHeld);
  if (plain.typeName === "string") return textReader(type, isHeld);
  if (plain.typeName === "int" || plain.typeName === "long") return numberReader(type, isHeld);
  return (tap) => type._read(tap);
};

/** The byte in front of a value of `["null", type]`. */
const HELD = 2;

/** A number of one byte, as most numbers are except times. */
const numberReader =
  (type: ReadType, isHeld: boolean): ReadValue =>
  (tap) => {
    const { buf, pos } = tap;
    const at = isHeld ? pos + 1 : pos;
    const zigzag = buf[at];
    if (zigzag === undefined || zigzag >= 0x80 || (isHeld && buf[pos] !== HELD)) return type._read(tap);
    tap.pos = at + 1;
    return (zigzag >> 1) ^ -(zigzag & 1);
  };

/** An amount of up to four bytes: a million and more, with cents. */
const amountReader =
  (type: ReadType, isHeld: boolean): ReadValue =>
  (tap) => {
    const { buf, pos } = tap;
    if (isHeld && buf[pos] !== HELD) return type._read(tap);
    let at = isHeld ? pos + 1 : pos;
    let zigzag = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = buf[at++];
      if (byte === undefined) break;
      zigzag |= (byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      tap.pos = at;
      return BigInt((zigzag >> 1) ^ -(zigzag & 1));
    }
    return type._read(tap);
  };

/** The number of texts that are remembered of a field, by a hash of their bytes. */
const SLOTS = 64;
/** Longer texts, such as ids of devices and addresses, seldom repeat. */
const LONGEST_KEPT = 32;

type Text = Buffer & { readonly utf8Slice: (from: number, to: number) => string };

/**
 * A text of up to 8 KiB. A repeated text of the field is returned as the same string: this saves a
 * call into native code and garbage, and the hash of the string is known for look-ups in maps.
 */
const textReader = (type: ReadType, isHeld: boolean): ReadValue => {
  const known: string[] = new Array(SLOTS).fill("");
  return (tap) => {
    const { buf, pos } = tap;
    let at = pos;
    if (isHeld && buf[at++] !== HELD) return type._read(tap);
    let zigzag = buf[at++]!;
    if (zigzag >= 0x80) {
      const high = buf[at++]!;
      if (!(high < 0x80)) return type._read(tap);
      zigzag = (zigzag & 0x7f) | (high << 7);
    }
    const length = zigzag >> 1;
    const end = at + length;
    if ((zigzag & 1) === 1 || end > buf.length) return type._read(tap);
    tap.pos = end;
    if (length === 0) return "";
    if (length > LONGEST_KEPT) return (buf as Text).utf8Slice(at, end);
    const slot = (length + buf[at]! + 3 * buf[at + (length >> 1)]! + 7 * buf[end - 1]!) % SLOTS;
    const text = known[slot]!;
    if (text.length === length && isAt(buf, end, text)) return text;
    const read = (buf as Text).utf8Slice(at, end);
    // The text has as many units as bytes: it is ASCII, or the bytes are no valid text and no unit
    // equals them.
    if (read.length === length) known[slot] = read;
    return read;
  };
};

/** Compares from the end, where ids differ. */
const isAt = (bytes: Buffer, end: number, text: string): boolean => {
  for (let n = text.length - 1, at = end - 1; n >= 0; n--, at--) if (bytes[at] !== text.charCodeAt(n)) return false;
  return true;
};
