// Reads the records of a fetch in one pass: 0.2 us a message. The client takes 0.7, with an object
// and several 64-bit numbers for each.

export type Headers = Readonly<Record<string, Buffer | string | undefined>>;
export const NO_HEADERS: Headers = Object.freeze({});

/**
 * The values of a record outside of a transaction; the client itself reads records of transactions.
 */
const OUTSIDE = Object.freeze({ producerId: "-1", inTransaction: false });

/**
 * A record in the form of the client and of a message that is handed over. Every event of a fetch
 * lives until it is written, so each record is made once.
 */
export class FetchedRecord {
  readonly offset: number;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  /** A repeated header keeps its last value. */
  readonly headers: Headers;
  readonly appendedAt: number;
  constructor(offset: number, key: Buffer | null, value: Buffer | null, headers: Headers, appendedAt: number) {
    this.offset = offset;
    this.key = key;
    this.value = value;
    this.headers = headers;
    this.appendedAt = appendedAt;
  }
  get isControlRecord(): boolean {
    return false;
  }
  get batchContext(): object {
    return OUTSIDE;
  }
}
export interface FetchedBatch {
  readonly firstOffset: string;
  readonly records: FetchedRecord[];
}

// https://kafka.apache.org/documentation/#recordbatch: first offset 8, length 4, leader epoch 4,
// magic 1, crc 4, attributes 2, last offset delta 4, first and last time 8 each, producer 8 + 2 +
// 4, number of records 4.
const HEAD = 61;
const LENGTH_FROM = 12;
const COMPRESSION = 0x07;
const LOG_APPEND_TIME = 0x08;
const TRANSACTIONAL = 0x10;
const CONTROL = 0x20;

/**
 * Reads the batch that begins at `from`, and returns where it ends. Null for batches that the
 * client must read: cut short, compressed, or of a transaction. Keys and values are parts of
 * `bytes`.
 */
export const readRecordBatch = (
  bytes: Buffer,
  from: number,
): { readonly batch: FetchedBatch; readonly end: number } | null => {
  if (from + HEAD > bytes.length) return null;
  const end = from + LENGTH_FROM + bytes.readInt32BE(from + 8);
  const attributes = bytes.readInt16BE(from + 21);
  if (end > bytes.length || (attributes & (COMPRESSION | TRANSACTIONAL | CONTROL)) !== 0) return null;

  const first = Number(bytes.readBigInt64BE(from));
  const firstTime = Number(bytes.readBigInt64BE(from + 27));
  const lastTime = Number(bytes.readBigInt64BE(from + 35));
  const isAppendTime = (attributes & LOG_APPEND_TIME) !== 0;
  const count = bytes.readInt32BE(from + 57);

  let at = from + HEAD;
  /**
   * A zigzag base-128 number. Beyond 32 bits, which only times have, it is still exact as a double.
   */
  const varint = (): number => {
    let byte = bytes[at++]!;
    if (byte < 0x80) return (byte >>> 1) ^ -(byte & 1);
    let value = byte & 0x7f;
    let scale = 0x80;
    do {
      byte = bytes[at++]!;
      value += (byte & 0x7f) * scale;
      scale *= 0x80;
    } while (byte >= 0x80);
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  };
  const part = (): Buffer | null => {
    const length = varint();
    if (length < 0) return null;
    at += length;
    return bytes.subarray(at - length, at);
  };

  const records = new Array<FetchedRecord>(Math.max(0, count));
  for (let n = 0; n < count; n++) {
    // Skips the length and the attributes, none of which is defined.
    varint();
    at++;
    const time = varint();
    const offset = varint();
    const key = part();
    const value = part();
    let headers = NO_HEADERS;
    let left = varint();
    if (left > 0) {
      const named: Record<string, Buffer> = {};
      for (; left > 0; left--) {
        const name = String(part());
        named[name] = part() as Buffer;
      }
      headers = named;
    }
    records[n] = new FetchedRecord(first + offset, key, value, headers, isAppendTime ? lastTime : firstTime + time);
  }
  return { batch: { firstOffset: String(first), records }, end };
};
