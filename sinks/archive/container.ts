// Records of a partition as an Avro object container file, which any Avro tool reads: the bytes of
// the log, offsets, append times.
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { type DeflateRaw, deflateRaw, inflateRaw } from "node:zlib";
import type avro from "avsc";
import { typeOf } from "../../infra/avro/avro.ts";
import type { UnixMs } from "../../stream/flow.ts";

/**
 * One record as it lay in the log. `value` begins with byte 0 and the id of its schema, which lies
 * in `archive/schemas`.
 */
export interface ArchivedRecord {
  readonly offset: number;
  readonly appended_at: UnixMs;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: readonly { readonly name: string; readonly value: Buffer | null }[];
}

/** What a file holds; written into its head, and announced before it. */
export interface Contents {
  readonly topic: string;
  readonly partition: number;
  readonly first: number;
  readonly last: number;
  readonly records: number;
  readonly appended_from: UnixMs;
  readonly appended_to: UnixMs;
  /** Before compression. */
  readonly bytes: number;
  /**
   * SHA-256 of the records as Avro, before compression: the same whatever version of zlib has
   * written the file.
   */
  readonly sha256: string;
}

/** A file that is not what was written; says what is wrong with it. */
export class Damaged extends Error {
  readonly verdict = "fatal";
  constructor(key: string, why: string) {
    super(`${key} is damaged: ${why}`);
    this.name = "Damaged";
  }
}

const schema = {
  type: "record",
  name: "ArchivedRecord",
  namespace: "tributary",
  fields: [
    { name: "offset", type: "long" },
    { name: "appended_at", type: { type: "long", logicalType: "timestamp-millis" } },
    { name: "key", type: ["null", "bytes"] },
    { name: "value", type: ["null", "bytes"], doc: "byte 0, the id of the schema in 4 bytes, Avro" },
    {
      name: "headers",
      type: {
        type: "array",
        items: {
          type: "record",
          name: "ArchivedHeader",
          fields: [
            { name: "name", type: "string" },
            { name: "value", type: ["null", "bytes"] },
          ],
        },
      },
    },
  ],
};

// https://avro.apache.org/docs/1.12.0/specification/#object-container-files
const MAGIC = Buffer.from("Obj\x01");
const SYNC_BYTES = 16;
/**
 * Each block costs a compressor of 270 KiB; encoding one keeps everything else waiting for 2 ms.
 */
const BLOCK_BYTES = 1024 * 1024;
/**
 * A piece of output is a turn of the event loop; by default there would be one for every 16 KiB.
 */
const PIECE_BYTES = 512 * 1024;
/** Level 1 costs a third of level 6 for files that are a tenth larger. */
const LEVEL = 1;
const compress = promisify<Buffer, { level: number; chunkSize: number }, Buffer>(
  deflateRaw as never as (...given: any[]) => DeflateRaw,
);
const inflate = promisify<Buffer, { maxOutputLength: number; chunkSize: number }, Buffer>(inflateRaw as never);
/** A block holds one record at least, and the log takes none above 16 MiB. */
const LARGEST_BLOCK = 32 * 1024 * 1024;

const recordType = typeOf(schema);
const metaType = typeOf({ type: "map", values: "bytes" });
const longType = typeOf("long" as never);
const SCHEMA_TEXT = JSON.stringify(schema);

interface Metadata {
  readonly [name: string]: Buffer;
}

const long = (value: number): Buffer => longType.toBuffer(value);

/** Blocks of encoded records, each of about BLOCK_BYTES; a block is overwritten by the next. */
const blocksOf = function* (
  records: readonly ArchivedRecord[],
): Iterable<{ readonly count: number; readonly bytes: Buffer }> {
  let slab = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  let at = 0;
  let count = 0;
  for (let n = 0; n < records.length; ) {
    const end = recordType.encode(records[n], slab, at);
    if (end >= 0) {
      at = end;
      count++;
      n++;
      continue;
    }
    // It did not fit (a negative answer, and nothing is lost): close the block, or take a larger
    // slab for a record that is larger than one.
    if (count > 0) yield { count, bytes: slab.subarray(0, at) };
    else slab = Buffer.allocUnsafeSlow(slab.length * 2);
    at = 0;
    count = 0;
  }
  if (count > 0) yield { count, bytes: slab.subarray(0, at) };
};

interface Container {
  readonly file: Buffer;
  readonly contents: Contents;
}
/** What of the contents does not follow from the records. */
type Covered = Omit<Contents, "records" | "bytes" | "sha256">;

/**
 * Of at least one record, in the order of their offsets. The same records make the same contents,
 * and the same file under one version of zlib.
 */
export const writeContainer = (
  topic: string,
  partition: number,
  records: readonly ArchivedRecord[],
): Promise<Container> => {
  const { offset: first, appended_at: appended_from } = records[0]!;
  const { offset: last, appended_at: appended_to } = records.at(-1)!;
  return containerOf({ topic, partition, first, last, appended_from, appended_to }, records);
};

/** The file of these contents with fewer records, possibly none: it covers the same offsets. */
export const rewriteContainer = (contents: Contents, records: readonly ArchivedRecord[]): Promise<Container> => {
  const { topic, partition, first, last, appended_from, appended_to } = contents;
  return containerOf({ topic, partition, first, last, appended_from, appended_to }, records);
};

const containerOf = async (
  { topic, partition, first, last, appended_from, appended_to }: Covered,
  records: readonly ArchivedRecord[],
): Promise<Container> => {
  // Between blocks is the mark by which a reader finds the next block; it follows from the name,
  // so that a file can be written again.
  const sync = createHash("sha256").update(`${topic}/${partition}/${first}-${last}`).digest().subarray(0, SYNC_BYTES);
  const hash = createHash("sha256");
  const blocks: Buffer[] = [];
  let bytes = 0;
  for (const block of blocksOf(records)) {
    hash.update(block.bytes);
    bytes += block.bytes.length;
    const packed = await compress(block.bytes, { level: LEVEL, chunkSize: PIECE_BYTES });
    blocks.push(long(block.count), long(packed.length), packed, sync);
  }
  const sha256 = hash.digest("hex");
  const contents: Contents = {
    topic,
    partition,
    first,
    last,
    records: records.length,
    appended_from,
    appended_to,
    bytes,
    sha256,
  };
  const metadata: Metadata = {
    "avro.schema": Buffer.from(SCHEMA_TEXT),
    "avro.codec": Buffer.from("deflate"),
    "tributary.contents": Buffer.from(JSON.stringify(contents)),
  };
  return { file: Buffer.concat([MAGIC, metaType.toBuffer(metadata), sync, ...blocks]), contents };
};

/**
 * Everything in a file, once it is known to be what was written. Throws Damaged, naming the key.
 */
export const readContainer = async (
  key: string,
  file: Buffer,
): Promise<{ readonly records: readonly ArchivedRecord[]; readonly contents: Contents }> => {
  try {
    return await read(file);
  } catch (error) {
    throw new Damaged(key, (error as Error).message);
  }
};

const read = async (
  file: Buffer,
): Promise<{ readonly records: readonly ArchivedRecord[]; readonly contents: Contents }> => {
  if (!file.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error("it does not begin as an Avro file");
  let at = MAGIC.length;
  const next = <T>(type: avro.Type): T => {
    const { value, offset } = type.decode(file, at);
    if (offset < 0) throw new Error("it is cut short");
    at = offset;
    return value as T;
  };
  const metadata = next<Metadata>(metaType);
  const contents = JSON.parse(String(metadata["tributary.contents"])) as Contents;
  const written = String(metadata["avro.schema"]);
  // A later version reads what this one has written, as the log's own schemas are read.
  const resolver = written === SCHEMA_TEXT ? undefined : recordType.createResolver(typeOf(JSON.parse(written)));
  const sync = file.subarray(at, at + SYNC_BYTES);
  at += SYNC_BYTES;
  const hash = createHash("sha256");
  const records: ArchivedRecord[] = [];
  while (at < file.length) {
    const count = next<number>(longType);
    const length = next<number>(longType);
    if (length < 0 || at + length + SYNC_BYTES > file.length) throw new Error("it is cut short");
    const block = await inflate(file.subarray(at, at + length), {
      maxOutputLength: LARGEST_BLOCK,
      chunkSize: PIECE_BYTES,
    });
    at += length;
    if (!file.subarray(at, at + SYNC_BYTES).equals(sync)) throw new Error("a block does not end where it should");
    at += SYNC_BYTES;
    hash.update(block);
    let place = 0;
    for (let n = 0; n < count; n++) {
      const { value, offset } = recordType.decode(block, place, resolver);
      if (offset < 0) throw new Error("a block is cut short");
      records.push(value as ArchivedRecord);
      place = offset;
    }
  }
  if (hash.digest("hex") !== contents.sha256) throw new Error("its checksum is not the one that it was written with");
  if (records.length !== contents.records)
    throw new Error(`it holds ${records.length} records instead of ${contents.records}`);
  return { records, contents };
};
