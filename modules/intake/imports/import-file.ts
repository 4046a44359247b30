// The file of an import in object storage. It is stored in pieces of one size, so that neither
// uploading nor reading holds more than one piece in memory.
import { createHash } from "node:crypto";
import { pipeline as piped } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Objects } from "../../../infra/objects/objects.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { BadFile } from "./csv/csv-head.ts";

/** The size of each piece except the last. */
export const PART_BYTES = 8 * 1024 * 1024;
/** The limit of the inflated size. */
export const MOST_BYTES = 5 * 1024 ** 3;
/**
 * Gzip makes rows 5 to 20 times smaller; a zip bomb inflates 1,000 times. Below 1 MiB the ratio
 * does not matter.
 */
const MAX_RATIO = 50;
const FREE_OF_RATIO = 1024 * 1024;

const folderOf = (importId: string): string => `imports/${importId}`;
/** The first piece is 0. */
export const partKey = (importId: string, part: number): string =>
  `${folderOf(importId)}/parts/${String(part).padStart(6, "0")}`;
/** The name contains the first line of the batch, so that a repeated batch replaces the object. */
export const errorsKey = (importId: string, line: number): string =>
  `${folderOf(importId)}/errors/${String(line).padStart(12, "0")}`;

export interface StoredFile {
  readonly bytes: number;
  readonly parts: number;
  /** The hash of the uncompressed file. */
  readonly sha256: string;
}

/**
 * Stores the body piece by piece, and inflates it if it is gzipped. Throws BadFile `file_too_large`
 * and `bad_gzip`; rejects if the sender disconnects or object storage fails.
 */
export const storeFile = async (
  objects: Pick<Objects, "put">,
  importId: string,
  body: AsyncIterable<Buffer>,
  isGzip: boolean,
): Promise<StoredFile> => {
  const hash = createHash("sha256");
  let bytes = 0;
  let parts = 0;
  let held: Buffer[] = [];
  let heldBytes = 0;
  const store = async (part: Buffer): Promise<void> => {
    await objects.put(partKey(importId, parts), part);
    parts += 1;
  };
  for await (const chunk of plainOf(body, isGzip)) {
    hash.update(chunk);
    bytes += chunk.length;
    let rest = chunk;
    while (heldBytes + rest.length >= PART_BYTES) {
      const room = PART_BYTES - heldBytes;
      await store(Buffer.concat([...held, rest.subarray(0, room)], PART_BYTES));
      rest = rest.subarray(room);
      held = [];
      heldBytes = 0;
    }
    held.push(rest);
    heldBytes += rest.length;
  }
  if (heldBytes > 0) await store(Buffer.concat(held, heldBytes));
  return { bytes, parts, sha256: hash.digest("hex") };
};

async function* plainOf(body: AsyncIterable<Buffer>, isGzip: boolean): AsyncGenerator<Buffer, void> {
  let sent = 0;
  let plain = 0;
  const counted = async function* (source: AsyncIterable<Buffer>): AsyncGenerator<Buffer, void> {
    for await (const chunk of source) {
      sent += chunk.length;
      yield chunk;
    }
  };
  // Errors of either stream surface where the chunks are read.
  const chunks = isGzip ? piped(counted(body), createGunzip(), () => undefined) : counted(body);
  try {
    for await (const chunk of chunks as AsyncIterable<Buffer>) {
      plain += chunk.length;
      if (plain > MOST_BYTES) throw new BadFile("file_too_large", `send at most ${MOST_BYTES} bytes, inflated`);
      if (isGzip && plain > Math.max(FREE_OF_RATIO, sent * MAX_RATIO))
        throw new BadFile("file_too_large", `the file inflates more than ${MAX_RATIO} times: send it plain`);
      yield chunk;
    }
  } catch (error) {
    const isBroken = ["Z_DATA_ERROR", "Z_BUF_ERROR"].includes((error as { code?: string }).code ?? "");
    throw isBroken ? new BadFile("bad_gzip", "the file is not valid gzip, or was cut") : error;
  }
}

/** The bytes of the file from `offset` on, piece by piece. Rejects with ObjectMissing. */
export async function* fileFrom(
  objects: Pick<Objects, "get">,
  importId: string,
  parts: number,
  offset: number,
): AsyncGenerator<Buffer, void> {
  for (let part = Math.floor(offset / PART_BYTES); part < parts; part += 1) {
    const piece = await objects.get(partKey(importId, part));
    yield piece.subarray(Math.max(0, offset - part * PART_BYTES));
  }
}

/** Deletes the pieces of the file, or its rejected rows. */
export const removeObjects = async (
  objects: Pick<Objects, "list" | "delete">,
  importId: string,
  what: "parts" | "errors",
): Promise<void> => {
  for await (const { key } of objects.list(`${folderOf(importId)}/${what}/`)) await objects.delete(key);
};

/** A rejected row in the error file. */
export interface RejectedRow {
  readonly line: number;
  readonly column: string | null;
  readonly code: string;
  readonly message: string;
  /** The row as it came, with recognised personal data removed. */
  readonly row: string;
  /** When it was rejected, in Unix milliseconds. */
  readonly at: UnixMs;
  /** Keyed hashes of the people whom it names; null: the row could not be read. */
  readonly subjects: readonly string[] | null;
}

export const rejectedText = (rows: readonly RejectedRow[]): Buffer =>
  Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));

/** Rejected rows in the order of lines, one list for each batch. */
export async function* rejectedObjects(
  objects: Pick<Objects, "get" | "list">,
  importId: string,
): AsyncGenerator<{ readonly key: string; readonly rows: readonly RejectedRow[] }, void> {
  for await (const { key } of objects.list(`${folderOf(importId)}/errors/`)) {
    const lines = (await objects.get(key)).toString("utf8").split("\n");
    yield { key, rows: lines.filter((line) => line !== "").map((line) => rejectedRow(line)) };
  }
}

/** Rows of earlier releases name no person and are treated like unreadable rows. */
const rejectedRow = (line: string): RejectedRow => ({ at: 0, subjects: null, ...JSON.parse(line) });

export async function* rejectedRows(
  objects: Pick<Objects, "get" | "list">,
  importId: string,
): AsyncGenerator<readonly RejectedRow[], void> {
  for await (const { rows } of rejectedObjects(objects, importId)) yield rows;
}
