// Writes and reads records of a partition as an Avro object container file, which any Avro tool
// reads: the bytes of the log, with offsets and append times.
import { createHash } from "node:crypto";
import type avro from "avsc";
import { typeOf } from "../../infra/avro/avro.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { CODEC, pack, unpack } from "./codecs.ts";

/**
 * One record as in the log. `value` begins with byte 0 and the id of its schema, which is in
 * `archive/schemas`.
 */
export interface ArchivedRecord {
  readonly offset: number;
  readonly appended_at: UnixMs;
  readonly key: Buffer | null;
  readonly value: Buffer | null;
  readonly headers: readonly { readonly name: string; readonly value: Buffer | null }[];
}

/**
 * Describes the contents of a file. Announced before the file is written, and stored in its head.
 */
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
   * SHA-256 of the records as Avro before compression, so it does not depend on the version of
   * zlib.
   */
  readonly sha256: string;
}

/** Thrown for a file that differs from the written one. The message says how. */
export class DamagedArchive extends Error {
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
/** Smaller blocks compress less. A larger block costs more to hand to the pool. */
const BLOCK_BYTES = 512 * 1024;
const recordType = typeOf(schema);
const metaType = typeOf({ type: "map", values: "bytes" });
const longType = typeOf("long" as never);
const SCHEMA_TEXT = JSON.stringify(schema);

interface Metadata {
  readonly [name: string]: Buffer;
}

const long = (value: number): Buffer => longType.toBuffer(value);

interface Container {
  readonly file: Buffer;
  readonly contents: Contents;
}
/** The offsets that a file covers, whatever records it contains. */
type CoveredOffsets = Pick<Contents, "topic" | "partition" | "first" | "last"> &
  Partial<Pick<Contents, "appended_from" | "appended_to">>;

type Tally = Omit<Contents, "topic" | "partition" | "first" | "last">;

/** The order of the fields is fixed, because their JSON is part of the file. */
const contentsOf = ({ topic, partition, first, last, ...given }: CoveredOffsets, tally: Tally): Contents => ({
  topic,
  partition,
  first,
  last,
  records: tally.records,
  appended_from: given.appended_from ?? tally.appended_from,
  appended_to: given.appended_to ?? tally.appended_to,
  bytes: tally.bytes,
  sha256: tally.sha256,
});

/**
 * A file that is being written. Records are compressed as they arrive, so that closing it costs
 * little.
 */
export interface OpenContainer {
  /** Takes records in the order of their offsets. Calls must not overlap. */
  readonly add: (records: readonly ArchivedRecord[]) => Promise<void>;
  /** The size so far, before compression. */
  readonly bytes: () => number;
  /**
   * The same records give the same contents, however they were added. If no append times are given,
   * those of the first and the last record are used.
   */
  readonly close: (covered: CoveredOffsets) => Promise<Container>;
}

export const openContainer = (): OpenContainer => {
  const hash = createHash("sha256");
  const blocks: { readonly count: number; readonly packed: Buffer }[] = [];
  let slab = Buffer.allocUnsafeSlow(BLOCK_BYTES);
  let at = 0;
  let count = 0;
  let [records, bytes] = [0, 0];
  let [appendedFrom, appendedTo] = [0, 0];

  const endBlock = async (): Promise<void> => {
    const block = slab.subarray(0, at);
    hash.update(block);
    bytes += at;
    blocks.push({ count, packed: await pack(block) });
    at = 0;
    count = 0;
  };
  const add = async (given: readonly ArchivedRecord[]): Promise<void> => {
    for (let n = 0; n < given.length; ) {
      const end = recordType.encode(given[n], slab, at);
      if (end >= 0) {
        at = end;
        count++;
        n++;
      }
      // The record did not fit (a negative result; nothing is lost). Close the block, or take a
      // larger slab if the record is larger than one.
      else if (count > 0) await endBlock();
      else slab = Buffer.allocUnsafeSlow(slab.length * 2);
    }
    if (given.length === 0) return;
    if (records === 0) appendedFrom = given[0]!.appended_at;
    appendedTo = given.at(-1)!.appended_at;
    records += given.length;
  };
  const close = async (covered: CoveredOffsets): Promise<Container> => {
    if (count > 0) await endBlock();
    const contents = contentsOf(covered, {
      records,
      appended_from: appendedFrom,
      appended_to: appendedTo,
      bytes,
      sha256: hash.digest("hex"),
    });
    return { file: fileOf(contents, blocks), contents };
  };
  return { add, bytes: () => bytes + at, close };
};

const fileOf = (contents: Contents, blocks: readonly { readonly count: number; readonly packed: Buffer }[]): Buffer => {
  const { topic, partition, first, last } = contents;
  // A mark between blocks lets a reader find the next block. It follows from the name, so that
  // writing the file again gives the same bytes.
  const sync = createHash("sha256").update(`${topic}/${partition}/${first}-${last}`).digest().subarray(0, SYNC_BYTES);
  const metadata: Metadata = {
    "avro.schema": Buffer.from(SCHEMA_TEXT),
    "avro.codec": Buffer.from(CODEC),
    "tributary.contents": Buffer.from(JSON.stringify(contents)),
  };
  const parts = blocks.flatMap(({ count, packed }) => [long(count), long(packed.length), packed, sync]);
  return Buffer.concat([MAGIC, metaType.toBuffer(metadata), sync, ...parts]);
};

/** Writes the file again with fewer records, possibly none. It covers the same offsets. */
export const rewriteContainer = async (contents: Contents, records: readonly ArchivedRecord[]): Promise<Container> => {
  const container = openContainer();
  await container.add(records);
  return container.close(contents);
};

/** Reads and verifies a whole file. Throws Damaged, naming the key. */
export const readContainer = async (
  key: string,
  file: Buffer,
): Promise<{ readonly records: readonly ArchivedRecord[]; readonly contents: Contents }> => {
  try {
    return await read(file);
  } catch (error) {
    throw new DamagedArchive(key, (error as Error).message);
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
  // By the specification, a file without a codec is not compressed. We write no such file.
  const codec = String(metadata["avro.codec"]);
  // Later versions read files of this one by schema resolution, like records of the log.
  const resolver = written === SCHEMA_TEXT ? undefined : recordType.createResolver(typeOf(JSON.parse(written)));
  const sync = file.subarray(at, at + SYNC_BYTES);
  at += SYNC_BYTES;
  const hash = createHash("sha256");
  const blocks: { readonly count: number; readonly bytes: Buffer }[] = [];
  while (at < file.length) {
    const count = next<number>(longType);
    const length = next<number>(longType);
    if (length < 0 || at + length + SYNC_BYTES > file.length) throw new Error("it is cut short");
    const bytes = await unpack(codec, file.subarray(at, at + length));
    at += length;
    if (!file.subarray(at, at + SYNC_BYTES).equals(sync)) throw new Error("a block does not end where it should");
    at += SYNC_BYTES;
    hash.update(bytes);
    blocks.push({ count, bytes });
  }
  // Checked before any record is decoded, because a corrupt list length would take hours to read.
  if (hash.digest("hex") !== contents.sha256) throw new Error("its checksum is not the one that it was written with");
  const records: ArchivedRecord[] = [];
  for (const { count, bytes } of blocks) {
    let place = 0;
    for (let n = 0; n < count; n++) {
      const { value, offset } = recordType.decode(bytes, place, resolver);
      if (offset < 0) throw new Error("a block is cut short");
      records.push(value as ArchivedRecord);
      place = offset;
    }
  }
  if (records.length !== contents.records)
    throw new Error(`it holds ${records.length} records instead of ${contents.records}`);
  return { records, contents };
};
