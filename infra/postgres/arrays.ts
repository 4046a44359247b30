// Arrays as parameters in Postgres' binary form. As text, each item would be quoted here and parsed
// there, and bytes would be written as hex digits.

/** Object identifiers of the item types, the same in every Postgres. */
const OIDS = { bytes: 17, bigint: 20, int: 23, text: 25 } as const;
/**
 * The bytes before the items: the dimensions, whether any item is null, the type, the number of
 * items, and the lower bound 1.
 */
const HEADER_BYTES = 12;
const DIMENSION_BYTES = 8;
const LENGTH_BYTES = 4;
/** The length of a null item. */
const NULL = -1;
/** UTF-8 has at most this many bytes for one unit of a string. */
const BYTES_A_UNIT = 3;

const putHead = (
  array: Buffer,
  at: number,
  { oid, length, hasNull }: { readonly oid: number; readonly length: number; readonly hasNull: 0 | 1 },
): void => {
  array.writeInt32BE(length === 0 ? 0 : 1, at);
  array.writeInt32BE(hasNull, at + 4);
  array.writeInt32BE(oid, at + 8);
  if (length === 0) return;
  array.writeInt32BE(length, at + 12);
  array.writeInt32BE(1, at + 16);
};

/**
 * `bytes` is the size of all items together. `put` writes one item at a position and returns the
 * position after it.
 */
const arrayOf = <T>(
  oid: number,
  items: readonly T[],
  bytes: number,
  put: (item: T, array: Buffer, at: number) => number,
): Buffer => {
  const { length } = items;
  const array = Buffer.allocUnsafe(HEADER_BYTES + (length === 0 ? 0 : DIMENSION_BYTES + length * LENGTH_BYTES + bytes));
  putHead(array, 0, { oid, length, hasNull: 0 });
  let at = HEADER_BYTES + DIMENSION_BYTES;
  for (const item of items) {
    const from = at + LENGTH_BYTES;
    const end = put(item, array, from);
    array.writeInt32BE(end - from, at);
    at = end;
  }
  return array;
};

export const bytesArray = (items: readonly Uint8Array[]): Buffer =>
  arrayOf(
    OIDS.bytes,
    items,
    items.reduce((sum, { length }) => sum + length, 0),
    (item, array, at) => {
      array.set(item, at);
      return at + item.length;
    },
  );

export const textArray = (items: readonly string[]): Buffer =>
  arrayOf(
    OIDS.text,
    items,
    items.reduce((sum, item) => sum + Buffer.byteLength(item), 0),
    (item, array, at) => at + array.write(item, at),
  );

export const intArray = (items: readonly number[]): Buffer =>
  arrayOf(OIDS.int, items, items.length * 4, (item, array, at) => array.writeInt32BE(item, at));

/** An array of whole numbers; offsets and versions are far below 2^53. */
export const bigintArray = (items: readonly number[]): Buffer =>
  arrayOf(OIDS.bigint, items, items.length * 8, (item, array, at) => array.writeBigInt64BE(BigInt(item), at));

/** A text with an unpaired surrogate: it has no UTF-8 form, so Postgres cannot store it. */
export class BrokenText extends Error {
  readonly verdict = "data";
  constructor(column: string) {
    super(`${column} holds half a character`);
    this.name = "BrokenText";
  }
}
const HALF = /\p{Surrogate}/u;

/** Above this many units Node's own writer is faster than a loop over the units. */
const SHORT = 48;
const LAST_ASCII = 0x7f;

/** Returns how many bytes it wrote. */
const putText = (text: string, array: Buffer, at: number): number => {
  const { length } = text;
  if (length > SHORT) return array.write(text, at);
  for (let n = 0; n < length; n++) {
    const unit = text.charCodeAt(n);
    if (unit > LAST_ASCII) return array.write(text, at);
    array[at + n] = unit;
  }
  return length;
};

const textOf = (value: unknown): string | null =>
  typeof value === "string" ? value : value === null || value === undefined ? null : String(value);

/**
 * Makes an array of texts for each of these columns of the rows; missing values are null. Throws
 * BrokenText where UTF-8 would replace an unpaired surrogate by another character.
 */
export const columnArrays = (rows: readonly object[], columns: readonly string[]): readonly Buffer[] => {
  const texts = columns.map((column) => rows.map((row) => textOf((row as Readonly<Record<string, unknown>>)[column])));
  const around = HEADER_BYTES + DIMENSION_BYTES + rows.length * LENGTH_BYTES;
  let bytes = columns.length * around;
  for (const column of texts) for (const text of column) bytes += (text?.length ?? 0) * BYTES_A_UNIT;
  // One buffer for all arrays: one each would be a hundred allocations a write.
  const room = Buffer.allocUnsafe(bytes);
  let at = 0;
  return texts.map((column, n) => {
    const from = at;
    let hasNull: 0 | 1 = 0;
    at += HEADER_BYTES + (rows.length === 0 ? 0 : DIMENSION_BYTES);
    for (const text of column) {
      if (text === null) {
        hasNull = 1;
        at = room.writeInt32BE(NULL, at);
        continue;
      }
      const length = putText(text, room, at + LENGTH_BYTES);
      if (length > text.length && HALF.test(text)) throw new BrokenText(columns[n]!);
      at = room.writeInt32BE(length, at) + length;
    }
    putHead(room, from, { oid: OIDS.text, length: rows.length, hasNull });
    return room.subarray(from, at);
  });
};
