// The keys of the archive: `archive/<topic>/<hour>/<partition>-<first>-<last>.avro`, with the
// announcement of each file beside it as `<partition>-<first>.json`.
import type { UnixMs } from "../../stream/flow.ts";

export const HOUR_MS = 3_600_000;

/** One file, as described by its name. */
export interface ArchiveFile {
  readonly key: string;
  readonly topic: string;
  /** The beginning of the hour in which the broker appended the first record. */
  readonly hour: UnixMs;
  readonly partition: number;
  readonly first: number;
  readonly last: number;
  /** The stored size, compressed. */
  readonly bytes: number;
}

export const folderOf = (topic: string): string => `archive/${topic}/`;
/** Writes an hour as `2026-11-21T16`. */
export const hourText = (hour: UnixMs): string => new Date(hour).toISOString().slice(0, 13);
export const hourOf = (at: UnixMs): UnixMs => Math.floor(at / HOUR_MS) * HOUR_MS;

// Padded so that names sort as numbers: up to 100 partitions and 10^12 offsets, which are 20 years
// of a partition at its share of a million events a minute.
const padded = (number: number, digits: number): string => String(number).padStart(digits, "0");
const placeOf = (topic: string, hour: UnixMs, partition: number): string =>
  `${folderOf(topic)}${hourText(hour)}/${padded(partition, 2)}-`;

export interface Place {
  readonly topic: string;
  readonly hour: UnixMs;
  readonly partition: number;
}
export const prefixOf = ({ topic, hour, partition }: Place): string => placeOf(topic, hour, partition);
export const noticeKey = ({ topic, hour, partition }: Place, first: number): string =>
  `${placeOf(topic, hour, partition)}${padded(first, 12)}.json`;
export const fileKey = ({ topic, hour, partition }: Place, first: number, last: number): string =>
  `${placeOf(topic, hour, partition)}${padded(first, 12)}-${padded(last, 12)}.avro`;
export const schemaKey = (schemaId: number): string => `archive/schemas/${schemaId}.json`;

const FILE = /^archive\/([^/]+)\/(\d{4}-\d\d-\d\dT\d\d)\/(\d+)-(\d+)-(\d+)\.avro$/;
const NOTICE = /^archive\/([^/]+)\/(\d{4}-\d\d-\d\dT\d\d)\/(\d+)-(\d+)\.json$/;

/** Parses a key. Undefined if it is not a file of records. */
export const fileOf = (key: string, bytes: number): ArchiveFile | undefined => {
  const [, topic, hour, partition, first, last] = FILE.exec(key) ?? [];
  if (topic === undefined) return undefined;
  return {
    key,
    topic,
    hour: hourAt(hour!),
    partition: Number(partition),
    first: Number(first),
    last: Number(last),
    bytes,
  };
};
/** Parses the key of an announcement. Undefined for any other key. */
export const noticeOf = (key: string): (Place & { readonly first: number }) | undefined => {
  const [, topic, hour, partition, first] = NOTICE.exec(key) ?? [];
  if (topic === undefined) return undefined;
  return { topic, hour: hourAt(hour!), partition: Number(partition), first: Number(first) };
};
/** The hour of the folder that contains the key. Null for a key outside of such folders. */
export const hourOfKey = (key: string): UnixMs | null => {
  const [, hour] = /^archive\/[^/]+\/(\d{4}-\d\d-\d\dT\d\d)\//.exec(key) ?? [];
  return hour === undefined ? null : hourAt(hour);
};
const hourAt = (text: string): UnixMs => Date.parse(`${text}:00:00Z`);
