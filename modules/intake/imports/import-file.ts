// The file of an import in object storage: pieces of one size, so that neither who uploads nor who
// reads it holds more than one.
import { createHash } from "node:crypto";
import { pipeline as piped } from "node:stream";
import { createGunzip } from "node:zlib";
import type { Objects } from "../../../infra/objects/objects.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { BadFile } from "./csv/csv-head.ts";

/** Of each piece but the last. */
export const PART_BYTES = 8 * 1024 * 1024;
/** Inflated. */
export const MOST_BYTES = 5 * 1024 ** 3;
/** Rows shrink by 5 to 20 with gzip; a bomb by 1,000. Below 1 MiB it does not matter. */
const MAX_RATIO = 50;
const FREE_OF_RATIO = 1024 * 1024;

const folderOf = (importId: string): string => `imports/${importId}`;
/** The first one is 0. */
export const partKey = (importId: string, part: number): string =>
  `${folderOf(importId)}/parts/${String(part).padStart(6, "0")}`;
/** Named by the first line of its batch, so that doing a batch again replaces it. */
export const errorsKey = (importId: string, line: number): string =>
  `${folderOf(importId)}/errors/${String(line).padStart(12, "0")}`;

export interface StoredFile {
  readonly bytes: number;
  readonly parts: number;
  /** Of the plain file. */
  readonly sha256: string;
}

/**
 * Stores what comes, inflated when it is gzipped, a piece at a time. Throws BadFile
 * `file_too_large` and `bad_gzip`; rejects when the sender goes away, or object storage does not
 * take a piece.
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
  // The error of either end is seen where the chunks are read.
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

/** The bytes of the file from `offset` on, a piece at a time. Rejects with ObjectMissing. */
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

/** The pieces of the file, or the rows of it that were rejected. */
export const removeObjects = async (
  objects: Pick<Objects, "list" | "delete">,
  importId: string,
  what: "parts" | "errors",
): Promise<void> => {
  for await (const { key } of objects.list(`${folderOf(importId)}/${what}/`)) await objects.delete(key);
};

/** A row that was refused, as the file of errors has it. */
export interface RejectedRow {
  readonly line: number;
  readonly column: string | null;
  readonly code: string;
  readonly message: string;
  /** As it came, without what personal data shows in it. */
  readonly row: string;
  /** When it was refused, Unix milliseconds. */
  readonly at: UnixMs;
  /** Whom it names: keyed hashes; null: it could not be read. */
  readonly subjects: readonly string[] | null;
}

export const rejectedText = (rows: readonly RejectedRow[]): Buffer =>
  Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));

/** In the order of their lines, those of a batch at once. */
export async function* rejectedObjects(
  objects: Pick<Objects, "get" | "list">,
  importId: string,
): AsyncGenerator<{ readonly key: string; readonly rows: readonly RejectedRow[] }, void> {
  for await (const { key } of objects.list(`${folderOf(importId)}/errors/`)) {
    const lines = (await objects.get(key)).toString("utf8").split("\n");
    yield { key, rows: lines.filter((line) => line !== "").map((line) => rejectedRow(line)) };
  }
}

/** Rows of before name no one: they are kept like those that could not be read. */
const rejectedRow = (line: string): RejectedRow => ({ at: 0, subjects: null, ...JSON.parse(line) });

export async function* rejectedRows(
  objects: Pick<Objects, "get" | "list">,
  importId: string,
): AsyncGenerator<readonly RejectedRow[], void> {
  for await (const { rows } of rejectedObjects(objects, importId)) yield rows;
}
