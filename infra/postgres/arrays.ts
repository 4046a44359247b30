// Arrays as parameters in Postgres' binary form: as text each item would be quoted here and parsed
// there, and bytes would be written as hex digits.

/** Object identifiers of the types of items, the same in every Postgres. */
const OIDS = { bytes: 17, bigint: 20, int: 23, text: 25 } as const;
/** In front of the items: dimensions, whether any is null, the type; then their number, and 1. */
const HEADER_BYTES = 12;
const DIMENSION_BYTES = 8;
const LENGTH_BYTES = 4;

/** `bytes` of all items together; `put` writes one at a place and answers the place behind it. */
const arrayOf = <T>(
  oid: number,
  items: readonly T[],
  bytes: number,
  put: (item: T, array: Buffer, at: number) => number,
): Buffer => {
  const { length } = items;
  const array = Buffer.allocUnsafe(HEADER_BYTES + (length === 0 ? 0 : DIMENSION_BYTES + length * LENGTH_BYTES + bytes));
  array.writeInt32BE(length === 0 ? 0 : 1, 0);
  array.writeInt32BE(0, 4);
  array.writeInt32BE(oid, 8);
  if (length === 0) return array;
  array.writeInt32BE(length, 12);
  array.writeInt32BE(1, 16);
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

/** Of numbers that are whole; offsets and versions are far below 2^53. */
export const bigintArray = (items: readonly number[]): Buffer =>
  arrayOf(OIDS.bigint, items, items.length * 8, (item, array, at) => array.writeBigInt64BE(BigInt(item), at));
