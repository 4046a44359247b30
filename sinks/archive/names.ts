// Where what lies in the archive: `archive/<topic>/<hour>/<partition>-<first>-<last>.avro`, each
// file announced by `<partition>-<first>.json` beside it.
import type { UnixMs } from "../../stream/flow.ts";

export const HOUR_MS = 3_600_000;

/** One file, as its name describes it. */
export interface ArchiveFile {
  readonly key: string;
  readonly topic: string;
  /** When the hour begins in which the broker appended the first record. */
  readonly hour: UnixMs;
  readonly partition: number;
  readonly first: number;
  readonly last: number;
  /** As stored, compressed. */
  readonly bytes: number;
}

export const folderOf = (topic: string): string => `archive/${topic}/`;
/** `2026-11-21T16` */
export const hourText = (hour: UnixMs): string => new Date(hour).toISOString().slice(0, 13);
export const hourOf = (at: UnixMs): UnixMs => Math.floor(at / HOUR_MS) * HOUR_MS;

// Names sort as numbers: up to 100 partitions, and 10^12 offsets, which are 20 years of a partition
// at its share of a million events a minute.
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

/** Undefined for a key that is not a file of records. */
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
/** Undefined for a key that announces no file. */
export const noticeOf = (key: string): (Place & { readonly first: number }) | undefined => {
  const [, topic, hour, partition, first] = NOTICE.exec(key) ?? [];
  if (topic === undefined) return undefined;
  return { topic, hour: hourAt(hour!), partition: Number(partition), first: Number(first) };
};
/** Of the folder in which a key lies; null for a key of no hour. */
export const hourOfKey = (key: string): UnixMs | null => {
  const [, hour] = /^archive\/[^/]+\/(\d{4}-\d\d-\d\dT\d\d)\//.exec(key) ?? [];
  return hour === undefined ? null : hourAt(hour);
};
const hourAt = (text: string): UnixMs => Date.parse(`${text}:00:00Z`);
