// The bytes of a spool: frames (length, CRC-32, payload). The first frame has the schemas, the
// others one record each. A cut or changed frame is recognised.
import { crc32 } from "node:zlib";
import type { UnixMs } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";

/**
 * Messages that were stored together, all or nothing. The owner counts by `label`, which has at
 * most 255 bytes.
 */
export interface SpoolRecord {
  readonly at: UnixMs;
  readonly label: string;
  readonly messages: readonly OutputMessage[];
}

/**
 * By topic, the schema of values whose schema id was not known when they were written (wire.ts,
 * `wireWithoutIds`).
 */
export type Schemas = Readonly<Record<string, object>>;

const FRAME_BYTES = 8;
const VERSION = 1;

const framed = (payload: Buffer): Buffer => {
  const frame = Buffer.allocUnsafe(FRAME_BYTES + payload.length);
  frame.writeUInt32BE(payload.length, 0);
  frame.writeUInt32BE(crc32(payload), 4);
  payload.copy(frame, FRAME_BYTES);
  return frame;
};

/** The frame that begins a segment. */
export const headFrame = (schemas: Schemas): Buffer =>
  framed(Buffer.from(JSON.stringify({ version: VERSION, schemas })));

const bytesOf = (text: Buffer | string): Buffer => (typeof text === "string" ? Buffer.from(text) : text);

/** The number of frames from the start that fit into `bytes` together; at least one. */
export const firstWithin = (waiting: readonly { readonly frame: Buffer }[], bytes: number): number => {
  let sum = waiting[0]?.frame.length ?? 0;
  let count = 1;
  while (count < waiting.length && sum + waiting[count]!.frame.length <= bytes) {
    sum += waiting[count]!.frame.length;
    count += 1;
  }
  return count;
};

/** Each part has its length in 4 bytes in front of it; -1 is null. */
export const recordFrame = ({ at, label, messages }: SpoolRecord): Buffer => {
  const parts: (Buffer | null)[] = [Buffer.from(label)];
  const counts: number[] = [];
  for (const { topic, key, value, headers = {} } of messages) {
    const entries = Object.entries(headers);
    counts.push(entries.length);
    parts.push(Buffer.from(topic), key === null ? null : bytesOf(key), value);
    for (const [name, text] of entries) parts.push(Buffer.from(name), bytesOf(text));
  }
  let size = 12 + 4 * counts.length;
  for (const part of parts) size += 4 + (part?.length ?? 0);
  const frame = Buffer.allocUnsafe(FRAME_BYTES + size);
  let to = FRAME_BYTES;
  to = frame.writeDoubleBE(at, to);
  to = frame.writeUInt32BE(messages.length, to);
  for (const count of counts) to = frame.writeUInt32BE(count, to);
  for (const part of parts) {
    to = frame.writeInt32BE(part?.length ?? -1, to);
    if (part !== null) to += part.copy(frame, to);
  }
  frame.writeUInt32BE(size, 0);
  frame.writeUInt32BE(crc32(frame.subarray(FRAME_BYTES)), 4);
  return frame;
};

/**
 * The payload of the frame at `from`. Null if there is no whole and valid frame; the rest of the
 * file is then unreadable too.
 */
export const payloadAt = (bytes: Buffer, from: number): Buffer | null => {
  if (from + FRAME_BYTES > bytes.length) return null;
  const length = bytes.readUInt32BE(from);
  const payload = bytes.subarray(from + FRAME_BYTES, from + FRAME_BYTES + length);
  // Blocks that were allocated and never written read as zeros, whose checksum would be right.
  return length === 0 || payload.length < length || crc32(payload) !== bytes.readUInt32BE(from + 4) ? null : payload;
};

/** The size of the frame with this payload. */
export const sizeOf = (payload: Buffer): number => FRAME_BYTES + payload.length;

/** The size that the frame at this position claims; its first eight bytes must be there. */
export const claimedAt = (bytes: Buffer, from: number): number => FRAME_BYTES + bytes.readUInt32BE(from);

/** Throws on the format of another release. */
export const readHead = (payload: Buffer): Schemas => {
  const { version, schemas } = JSON.parse(payload.toString()) as { version: number; schemas: Schemas };
  if (version !== VERSION)
    throw new Error(`this spool has form ${version}, not ${VERSION}: another release must drain it`);
  return schemas;
};

/** The buffers of the messages are parts of the payload. */
export const readRecord = (payload: Buffer): SpoolRecord => {
  let from = 12;
  const at = payload.readDoubleBE(0);
  const counts = Array.from({ length: payload.readUInt32BE(8) }, () => {
    from += 4;
    return payload.readUInt32BE(from - 4);
  });
  const next = (): Buffer | null => {
    const length = payload.readInt32BE(from);
    from += 4 + Math.max(0, length);
    return length < 0 ? null : payload.subarray(from - length, from);
  };
  const label = next()!.toString();
  const messages = counts.map((count): OutputMessage => {
    const message = { topic: next()!.toString(), key: next(), value: next() };
    if (count === 0) return message;
    return {
      ...message,
      headers: Object.fromEntries(Array.from({ length: count }, () => [next()!.toString(), next()!])),
    };
  });
  return { at, label, messages };
};

/**
 * The whole and valid records from an offset on, and where they end: behind them is nothing, or a
 * torn tail.
 */
export const recordsFrom = (
  bytes: Buffer,
  from: number,
): { readonly records: readonly SpoolRecord[]; readonly end: number } => {
  const records: SpoolRecord[] = [];
  let end = from;
  for (let payload = payloadAt(bytes, end); payload !== null; payload = payloadAt(bytes, end)) {
    records.push(readRecord(payload));
    end += sizeOf(payload);
  }
  return { records, end };
};
