// The Avro library as this project uses it: amounts are bigint, and its slow parts are replaced by
// code that writes the same bytes.
import { createRequire } from "node:module";
import avro from "avsc";
import { type ReadType, type RecordClass, recordReader } from "./record-reader.ts";
import { type RecordField, recordWriter, type WriteRecord } from "./record-writer.ts";

/** Amounts are 64-bit integers in minor units: avsc's own long stops at 2^53. */
const minorUnits = avro.types.LongType.__with({
  fromBuffer: (bytes: Buffer) => bytes.readBigInt64LE(),
  toBuffer: (amount: bigint) => {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(amount);
    return bytes;
  },
  fromJSON: BigInt,
  toJSON: String,
  isValid: (amount: unknown) => typeof amount === "bigint" && BigInt.asIntN(64, amount) === amount,
  compare: (a: bigint, b: bigint) => (a < b ? -1 : a > b ? 1 : 0),
});

/**
 * Makes an Avro type in which `minor-units` is a bigint. Building one takes up to milliseconds,
 * so it is built once a schema and never once a message.
 */
export const typeOf = (schema: object): avro.Type => {
  correct();
  return avro.Type.forSchema(schema as avro.Schema, {
    typeHook: (attributes: any) => (attributes?.logicalType === "minor-units" ? minorUnits : undefined) as any,
  });
};

/**
 * The position of avsc in the bytes that it reads or writes. A write that does not fit moves `pos`
 * beyond the end and writes nothing.
 */
interface Tap {
  readonly buf: Buffer;
  pos: number;
  readonly writeLong: (value: number) => void;
}
interface ReadTap extends Tap {
  readonly readLong: () => number;
}
interface RecordPrototype {
  readonly fields: readonly (RecordField & { readonly type: ReadType })[];
  readonly recordConstructor: RecordClass;
  readonly schema: () => object;
  _createReader: () => (tap: Tap) => object;
  _createWriter: () => WriteRecord;
}

interface ArrayPrototype {
  readonly itemsType: { readonly _read: (tap: Tap) => unknown; readonly _skip: (tap: Tap) => void };
  _read: (tap: ReadTap) => unknown[];
  _skip: (tap: ReadTap) => void;
}

interface MapPrototype {
  readonly valuesType: { readonly _read: (tap: Tap) => unknown };
  _read: (tap: ReadTap & { readonly readString: () => string }) => object;
}

interface UnionPrototype {
  readonly types: readonly { readonly typeName: string; readonly _write: (tap: Tap, value: unknown) => void }[];
  _write: (tap: Tap, value: unknown) => void;
}

/**
 * Returns the object that it is given, so that a derived class adds its private fields to any
 * object.
 */
class ExistingObject {
  constructor(value: object) {
    // biome-ignore lint/correctness/noConstructorReturn: a private field gets onto an object made elsewhere
    return value;
  }
}

/**
 * The bytes that a record was read from, in private fields of the record itself. No other code sees
 * them, and a changed copy of the record does not have them. A WeakMap would cost 0.45 us a record;
 * this costs 0.02.
 */
class ReadFrom extends ExistingObject {
  #bytes: Buffer;
  #start: number;
  #end: number;
  #layout: number;
  constructor(record: object, layout: number, bytes: Buffer, start: number, end: number) {
    super(record);
    this.#layout = layout;
    this.#bytes = bytes;
    this.#start = start;
    this.#end = end;
  }
  /**
   * Copies the bytes and returns true; false for a record that was not read, or was read with
   * another schema.
   */
  static copy(record: object, layout: number, tap: Tap): boolean {
    if (!(#bytes in record) || record.#layout !== layout) return false;
    const { pos } = tap;
    tap.pos += record.#end - record.#start;
    if (tap.pos <= tap.buf.length) record.#bytes.copy(tap.buf, pos, record.#start, record.#end);
    return true;
  }
}

/** Below this many fields, writing them again costs about as much as remembering their bytes. */
const WIDE = 16;
/** Up to this length a loop is faster than the call into native code. */
const SHORT = 24;
/** Types of equal schemas share a number, since each topic has types of its own. */
const layouts = new Map<string, number>();
const layoutOf = (type: RecordPrototype): number => {
  const schema = JSON.stringify(type.schema());
  const known = layouts.get(schema) ?? layouts.size;
  layouts.set(schema, known);
  return known;
};
const sizeOfLength = (length: number): number => (length < 0x40 ? 1 : length < 0x2000 ? 2 : length < 0x10_0000 ? 3 : 4);

let isCorrected = false;

/** avsc 5.7.9 is pinned; its parts are replaced before the first type is built. */
const correct = (): void => {
  if (isCorrected) return;
  isCorrected = true;
  const tap = createRequire(import.meta.url)("avsc/lib/utils.js").Tap.prototype as StringTap;
  const record = avro.types.RecordType.prototype as unknown as RecordPrototype;
  const union = avro.types.UnwrappedUnionType.prototype as unknown as UnionPrototype;
  const array = avro.types.ArrayType.prototype as unknown as ArrayPrototype;
  const map = avro.types.MapType.prototype as unknown as MapPrototype;
  const writing = [tap.writeString, tap.writeFixed, record._createWriter, union._write];
  for (const method of [...writing, record._createReader, tap.readLong, array._read, array._skip, map._read])
    if (typeof method !== "function") throw new Error("this is not avsc 5.7.9: a part that is replaced is gone");
  writeStringsAtOnce(tap);
  chooseBranchByNull(union);
  copyUnchangedRecords(record);
  endListsWithTheirBytes(array);
  endMapWithItsBytes(map);
};

type StringTap = ReadTap & { writeString: (text: string) => void; readonly writeFixed: unknown };

/**
 * avsc bug: it measures every string before it writes it, and writes one of 64 characters one by
 * one.
 */
const writeStringsAtOnce = (tap: StringTap): void => {
  const writeAny = tap.writeString;
  tap.writeString = function (this: Tap, text) {
    const { buf, pos } = this;
    const { length } = text;
    if (length < SHORT && pos + 1 + length <= buf.length) {
      let n = 0;
      for (; n < length; n++) {
        const code = text.charCodeAt(n);
        if (code > 0x7f) break;
        buf[pos + 1 + n] = code;
      }
      if (n === length) {
        buf[pos] = length << 1;
        this.pos = pos + 1 + length;
        return;
      }
    }
    const head = sizeOfLength(length);
    // A UTF-16 unit takes three bytes at most. The text is nearly always as long as guessed, so the
    // length fits into the room that was left for it.
    if (length >= SHORT && pos + head + 3 * length <= buf.length) {
      const written = (buf as Buffer & { utf8Write: (text: string, at: number) => number }).utf8Write(text, pos + head);
      if (sizeOfLength(written) === head) {
        this.writeLong(written);
        this.pos = pos + head + written;
        return;
      }
    }
    writeAny.call(this, text);
  };
};

/**
 * avsc is slow here: it looks a branch up by the kind of the value, and tries all branches for an
 * amount. Two thirds of an event's fields are "null or something".
 */
const chooseBranchByNull = (union: UnionPrototype): void => {
  const writeBranch = union._write;
  const { NullType } = avro.types;
  union._write = function (this: UnionPrototype, tap, value) {
    const { types } = this;
    if (types.length !== 2 || !(types[0] instanceof NullType)) return writeBranch.call(this, tap, value);
    // The index 0 or 1 as Avro writes a long. The type itself refuses a value that is neither null
    // nor of the type.
    const isNull = value === null;
    if (tap.pos < tap.buf.length) tap.buf[tap.pos] = isNull ? 0 : 2;
    tap.pos++;
    if (!isNull) types[1]!._write(tap, value);
  };
};

/**
 * avsc writes a record field by field even when a stage passes it on unchanged: an event has thirty
 * fields, and one of three stages reads all of them. It also reads and writes each field through
 * its type (record-reader.ts, record-writer.ts).
 */
const copyUnchangedRecords = (record: RecordPrototype): void => {
  record._createReader = function (this: RecordPrototype) {
    const types = this.fields.map(({ type }) => type);
    const read = recordReader(types, minorUnits, this.recordConstructor);
    if (this.fields.length < WIDE) return read;
    let layout: number | undefined;
    return (tap) => {
      layout ??= layoutOf(this);
      const start = tap.pos;
      const value = read(tap);
      new ReadFrom(value, layout, tap.buf, start, tap.pos);
      return value;
    };
  };
  record._createWriter = function (this: RecordPrototype) {
    const write = recordWriter(this.fields, minorUnits);
    if (this.fields.length < WIDE) return write;
    let layout: number | undefined;
    return (tap, value) => {
      layout ??= layoutOf(this);
      if (!ReadFrom.copy(value, layout, tap)) write(tap, value);
    };
  };
};

/** A negative number of items is followed by the size of their block. */
const itemsIn = (tap: ReadTap): number => {
  const count = tap.readLong();
  if (count < 0) tap.readLong();
  return Math.abs(count);
};

/**
 * True at the end of the bytes, and when the position is lost: avsc loses it (NaN) on a varint of
 * 150 bytes or more.
 */
const hasEnded = ({ pos, buf }: Tap): boolean => !(pos < buf.length);

/**
 * avsc bug: it reads a list on beyond the end of its bytes, as many items as its count names. A
 * count that was altered to billions held the process for minutes. A position beyond the end marks
 * the data as cut short, whatever follows.
 */
const endListsWithTheirBytes = (array: ArrayPrototype): void => {
  array._read = function (this: ArrayPrototype, tap) {
    const { itemsType } = this;
    const all: unknown[] = [];
    for (let left = itemsIn(tap); left > 0; left = itemsIn(tap))
      for (; left > 0; left--) {
        if (hasEnded(tap)) return cutShort(tap, all);
        all.push(itemsType._read(tap));
      }
    return all;
  };
  array._skip = function (this: ArrayPrototype, tap) {
    const { itemsType } = this;
    for (let left = itemsIn(tap); left > 0; left = itemsIn(tap))
      for (; left > 0; left--) {
        if (hasEnded(tap)) return void cutShort(tap, []);
        itemsType._skip(tap);
      }
  };
};

/** Ends maps in the same way: the header of an archive file is read before its checksum. */
const endMapWithItsBytes = (map: MapPrototype): void => {
  map._read = function (this: MapPrototype, tap) {
    const all: Record<string, unknown> = {};
    for (let left = itemsIn(tap); left > 0; left = itemsIn(tap))
      for (; left > 0; left--) {
        if (hasEnded(tap)) return cutShort(tap, all);
        const name = tap.readString();
        all[name] = this.valuesType._read(tap);
      }
    return all;
  };
};

/**
 * Moves the position beyond the end: items, and the number that ends a list, take at least one byte
 * each, and there is none.
 */
const cutShort = <T>(tap: Tap, all: T): T => {
  tap.pos = tap.buf.length + 1;
  return all;
};
