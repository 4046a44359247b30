// Walks an Avro record without building objects, and notes where each value begins: code that reads
// three fields of seventy decodes three. Unusual records are left to the library.

interface SlotPlace {
  /** The index of the value's position in the places. */
  readonly slot: number;
  readonly isNullable: boolean;
}
interface ValuePlace extends SlotPlace {
  readonly kind: "text" | "number" | "amount" | "flag";
}
interface EnumPlace extends SlotPlace {
  readonly kind: "enum";
  readonly symbols: readonly string[];
}
interface FixedPlace extends SlotPlace {
  readonly kind: "fixed";
  readonly size: number;
}
export interface ListPlace extends SlotPlace {
  readonly kind: "list";
  readonly items: Items;
}
export interface RecordPlace extends SlotPlace {
  readonly kind: "record";
  /** The index of the position of its end. */
  readonly endSlot: number;
  readonly fields: ReadonlyMap<string, Place>;
}
export type Place = ValuePlace | EnumPlace | FixedPlace | ListPlace | RecordPlace;

/**
 * Reads `bytes` from `start` up to `end`, and writes the position of each value into `places`, from
 * `at` on; NOWHERE for a null value and for everything in a record that is null. Returns the
 * position where the record ends, or NOWHERE. After NOWHERE the places mean nothing, and the
 * library must be asked, which may read the record or name the problem. A record that is read here
 * reads the same in the library, up to the same end.
 */
type Scan = (bytes: Uint8Array, start: number, end: number, places: Int32Array, at: number) => number;

export interface Layout {
  /** The number of slots of a record. */
  readonly width: number;
  readonly root: RecordPlace;
  readonly scan: Scan;
}

export const NOWHERE = -1;

// A step of the walk is three numbers: the kind, its slot, and an argument of the kind.
const STEP = 3;
const BEGIN = 0;
const END = 1;
const FLAG = 2;
const FIXED = 3;
// Values of this kind and all later kinds begin with a number.
const NUMBER = 4;
const TEXT = 5;
const ENUM = 6;
const LIST = 7;
const NULLABLE = 8;

const IS_NULL = 0;
/** Index 1 of a union, as Avro writes a long. */
const IS_THERE = 2;
const MORE_FOLLOWS = 0x80;
const SEVEN_BITS = 0x7f;
/**
 * The factor of the eighth byte. With it numbers up to 2^52 are exact, which is more than an edge
 * accepts.
 */
const LARGEST_SCALE = 2 ** 49;

interface Walk {
  readonly steps: Int32Array;
  readonly items: readonly Items[];
}
/** The items of a list. `places` belong to the item that was walked last. */
interface Items extends Walk {
  readonly place: Place;
  readonly places: Int32Array;
}

const walk = (
  { steps, items }: Walk,
  bytes: Uint8Array,
  start: number,
  end: number,
  places: Int32Array,
  at: number,
): number => {
  let pos = start;
  for (let n = 0; n < steps.length; n += STEP) {
    const step = steps[n]!;
    const slot = at + steps[n + 1]!;
    if (step === END) {
      places[slot] = pos;
      continue;
    }
    if ((step & NULLABLE) !== 0) {
      if (pos >= end) return NOWHERE;
      const branch = bytes[pos++]!;
      if (branch === IS_NULL) {
        places[slot] = NOWHERE;
        if (step !== (BEGIN | NULLABLE)) continue;
        n = steps[n + 2]!;
        places.fill(NOWHERE, slot, at + steps[n + 1]! + 1);
        continue;
      }
      if (branch !== IS_THERE) return NOWHERE;
    }
    places[slot] = pos;
    const kind = step & ~NULLABLE;
    if (kind < NUMBER) {
      if (kind === BEGIN) continue;
      pos += steps[n + 2]!;
      if (pos > end) return NOWHERE;
      continue;
    }
    if (pos >= end) return NOWHERE;
    let byte = bytes[pos++]!;
    let zigzag = byte & SEVEN_BITS;
    for (let scale = MORE_FOLLOWS; byte >= MORE_FOLLOWS; scale *= MORE_FOLLOWS) {
      if (pos >= end || scale > LARGEST_SCALE) return NOWHERE;
      byte = bytes[pos++]!;
      zigzag += (byte & SEVEN_BITS) * scale;
    }
    if (zigzag > Number.MAX_SAFE_INTEGER) return NOWHERE;
    if (kind === NUMBER) continue;
    // The number is a length, a symbol or a count, and none of them is negative.
    if (zigzag % 2 !== 0) return NOWHERE;
    const number = zigzag / 2;
    if (kind === TEXT) {
      pos += number;
      if (pos > end) return NOWHERE;
    } else if (kind === ENUM) {
      if (number >= steps[n + 2]!) return NOWHERE;
    } else {
      pos = pastList(items[steps[n + 2]!]!, number, bytes, pos, end);
      if (pos === NOWHERE) return NOWHERE;
    }
  }
  return pos;
};

/** Walks the blocks of a list, each behind its count, up to a count of zero. */
const pastList = (items: Items, count: number, bytes: Uint8Array, start: number, end: number): number => {
  let pos = start;
  for (let left = count; left > 0; ) {
    // Every item takes at least one byte, so a false count costs no time.
    if (left > end - pos) return NOWHERE;
    for (; left > 0; left--) {
      pos = walk(items, bytes, pos, end, items.places, 0);
      if (pos === NOWHERE) return NOWHERE;
    }
    if (pos >= end) return NOWHERE;
    const byte = bytes[pos++]!;
    // A further block has more than 63 items, or carries its size: no sender here writes that.
    if (byte >= MORE_FOLLOWS || byte % 2 !== 0) return NOWHERE;
    left = byte / 2;
  }
  return pos;
};

const steps: Readonly<Record<string, number>> = {
  boolean: FLAG,
  int: NUMBER,
  long: NUMBER,
  string: TEXT,
  enum: ENUM,
  fixed: FIXED,
  array: LIST,
};

/** Compiles a type to steps; `named` holds the types that are used again by their name. */
const compiled = (type: unknown, named: Map<string, any>): Walk & { readonly place: Place; readonly width: number } => {
  const walked: number[] = [];
  const lists: Items[] = [];
  let width = 0;
  const placeOf = (given: any, isNullable = false): Place => {
    if (Array.isArray(given)) {
      if (isNullable || given.length !== 2 || given[0] !== "null") throw new Unscannable();
      return placeOf(given[1], true);
    }
    const one = typeof given === "string" ? (named.get(given) ?? { type: given }) : given;
    const step = steps[one.type];
    const placed = { slot: width++, isNullable };
    if (one.type === "record") return recordOf(one, placed);
    if (step === undefined) throw new Unscannable();
    if (one.name !== undefined) named.set(one.name, one);
    const put = (argument: number): void => void walked.push(step | (isNullable ? NULLABLE : 0), placed.slot, argument);
    switch (step) {
      case FLAG:
        put(1);
        return { kind: "flag", ...placed };
      case FIXED:
        put(one.size);
        return { kind: "fixed", size: one.size, ...placed };
      case ENUM:
        put(one.symbols.length);
        return { kind: "enum", symbols: one.symbols, ...placed };
      case LIST: {
        const item = compiled(one.items, named);
        const items: Items = { ...item, places: new Int32Array(item.width) };
        put(lists.push(items) - 1);
        return { kind: "list", items, ...placed };
      }
      default:
        put(0);
        if (step === TEXT) return { kind: "text", ...placed };
        return { kind: one.logicalType === "minor-units" ? "amount" : "number", ...placed };
    }
  };
  const recordOf = ({ name, fields }: any, placed: SlotPlace): RecordPlace => {
    const begin = walked.push(BEGIN | (placed.isNullable ? NULLABLE : 0), placed.slot, 0) - 1;
    const places = new Map<string, Place>();
    for (const field of fields) places.set(field.name, placeOf(field.type));
    // Registered only now: inside of itself the record is unknown and refused.
    named.set(name, { type: "record", name, fields });
    const endSlot = width++;
    walked[begin] = walked.push(END, endSlot, 0) - STEP;
    return { kind: "record", endSlot, fields: places, ...placed };
  };
  const place = placeOf(type);
  return { place, width, steps: Int32Array.from(walked), items: lists };
};

/**
 * Null for a schema with a type that no record here has: maps, numbers with a fraction, bytes,
 * unions other than "null or something", and a record inside of itself.
 */
export const layoutOf = (schema: object): Layout | null => {
  try {
    const { place, width, ...whole } = compiled(schema, new Map());
    if (place.kind !== "record") return null;
    return { width, root: place, scan: (bytes, start, end, places, at) => walk(whole, bytes, start, end, places, at) };
  } catch (error) {
    if (error instanceof Unscannable) return null;
    throw error;
  }
};

class Unscannable extends Error {}

/** Reads with `read` each item of the list that begins at `pos` of a scanned record. */
export const itemsAt = <T>(
  { items }: ListPlace,
  bytes: Uint8Array,
  pos: number,
  read: (place: Place, places: Int32Array) => T,
): T[] => {
  const all: T[] = [];
  for (let at = pos; ; ) {
    const count = numberAt(bytes, at);
    if (count === 0) return all;
    at = pastNumber(bytes, at);
    for (let n = 0; n < count; n++) {
      at = walk(items, bytes, at, bytes.length, items.places, 0);
      all.push(read(items.place, items.places));
    }
  }
};

/** The number that begins at `pos` of a scanned record. */
export const numberAt = (bytes: Uint8Array, pos: number): number => {
  const zigzag = zigzagAt(bytes, pos);
  return zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
};

/** The text that begins at `pos`. Bytes that are not UTF-8 become U+FFFD, as in the library. */
export const textAt = (bytes: Buffer, pos: number): string => {
  const start = pastNumber(bytes, pos);
  return (bytes as Utf8Buffer).utf8Slice(start, start + zigzagAt(bytes, pos) / 2);
};
/** Costs less than `toString`, a third less for short texts. */
type Utf8Buffer = Buffer & { readonly utf8Slice: (start: number, end: number) => string };

/** The position after a number: there the characters of a text or the items of a list begin. */
export const pastNumber = (bytes: Uint8Array, pos: number): number => {
  let end = pos;
  while (bytes[end++]! >= MORE_FOLLOWS);
  return end;
};

const zigzagAt = (bytes: Uint8Array, pos: number): number => {
  let byte = bytes[pos]!;
  let zigzag = byte & SEVEN_BITS;
  for (let scale = MORE_FOLLOWS, next = pos + 1; byte >= MORE_FOLLOWS; scale *= MORE_FOLLOWS) {
    byte = bytes[next++]!;
    zigzag += (byte & SEVEN_BITS) * scale;
  }
  return zigzag;
};
