// Saves the records of an operator, all of them or none, by the use cases of their nouns, or shows
// what saving would change.
import type { Pool } from "pg";
import { enterEveryClient } from "../../../../modules/access/scope.ts";
import type { Act } from "../../../../modules/base/audit/audit.ts";
import { type Refusal, RefusalError, refuseAll } from "../../../../modules/base/refusal.ts";
import type { Work } from "../../../../modules/base/work.ts";
import { actsFrom } from "../../../../modules/catalog/reference/change.ts";
import {
  idFieldOf,
  type Kind,
  type KnownRecord,
  newestRecords,
} from "../../../../modules/catalog/reference/newest-records.ts";
import { lockReference, tookTooLong } from "../../../../modules/catalog/reference/open-change.ts";
import type { Columns } from "../../../../modules/catalog/reference/problem.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import { inWork } from "../../work.ts";
import { type RecordEntry, useCasesOf } from "./use-cases.ts";

/** Each record takes some milliseconds, and a change of reference data may take two seconds. */
const MOST_AT_ONCE = 100;

export interface SavedRecord {
  readonly key: string;
  readonly isNew: boolean;
  readonly before: Columns | undefined;
  readonly after: KnownRecord;
}
export interface SaveResult {
  readonly saved: readonly SavedRecord[];
  /** The moment from which events are decided by the change; undefined: nothing has changed. */
  readonly actsFrom: UnixMs | undefined;
}
interface SaveSettings {
  readonly act: Act;
  /** False: a preview, which saves nothing. */
  readonly isSaved: boolean;
}

/**
 * An entry with an id changes the fields that it gives, and one without makes a new record. A given
 * `version` must be the newest. Throws RefusalError with every fault; a path begins with its entry,
 * e.g. /contracts/0/rate.
 */
export const saveRecords = async (
  pool: Pool,
  kind: Kind,
  entries: readonly unknown[],
  { act, isSaved }: SaveSettings,
): Promise<SaveResult> => {
  if (entries.length === 0 || entries.length > MOST_AT_ONCE)
    refuseAll([{ kind: "invalid", code: "invalid", path: `/${kind}`, message: `give 1 to ${MOST_AT_ONCE} of them` }]);
  const saveAll = async (work: Work) => ({ work, saved: await saveEach(work, kind, entries) });
  try {
    const { work, saved } = await inWork(pool, act, saveAll, { isSaved });
    return { saved, actsFrom: actsFrom(work) };
  } catch (error) {
    if (tookTooLong(error))
      throw new Error("the change took too long, and was not saved: try again, or save fewer at once", {
        cause: error,
      });
    throw error;
  }
};

const saveEach = async (work: Work, kind: Kind, entries: readonly unknown[]): Promise<readonly SavedRecord[]> => {
  const { tx } = work;
  await lockReference(tx);
  const refusals: Refusal[] = [];
  const keys: string[] = [];
  const before = new Map<string, KnownRecord>();
  for (const [n, entry] of entries.entries()) {
    try {
      const read = await readEntry(work, kind, entry);
      if (read.known !== undefined) before.set(read.known.key, read.known);
      keys.push(await useCasesOf(kind).save(work, read));
    } catch (error) {
      if (!(error instanceof RefusalError)) throw error;
      refusals.push(...error.refusals.map((one) => ({ ...one, path: `/${kind}/${n}${one.path}` })));
      // A refused entry may have narrowed the scope; the next one begins with every client again.
      await enterEveryClient(tx);
    }
  }
  refuseAll(refusals);
  const after = new Map((await newestRecords(tx, kind, keys)).map((one) => [one.key, one]));
  await enterEveryClient(tx);
  return keys.map((key) => ({
    ...{ key, isNew: !before.has(key), before: before.get(key)?.record, after: after.get(key)! },
  }));
};

/** Properties of an entry that are no fields of a record. */
const NOT_FIELDS = ["version", "recorded_at", "confirm_retention"];

const isObject = (value: unknown): value is Columns =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const invalidEntry = (path: string, code: string, message: string): RefusalError =>
  new RefusalError([{ kind: "invalid", code, path, message }]);

/** Reads an entry and the record that it changes. */
const readEntry = async (work: Work, kind: Kind, entry: unknown): Promise<RecordEntry> => {
  if (!isObject(entry)) throw invalidEntry("", "invalid", "give an object");
  const idField = idFieldOf(kind);
  const given = Object.entries(entry).filter(
    ([name]) => !NOT_FIELDS.includes(name) && (kind === "segments" || name !== idField),
  );
  const fields = Object.fromEntries(given);
  if ("valid_from" in fields) throw invalidEntry("/valid_from", "invalid", "there is no field valid_from");
  const key = await keyOf(work, kind, entry);
  const [known] = key === undefined ? [] : await newestRecords(work.tx, kind, [key]);
  await enterEveryClient(work.tx);
  if (key !== undefined && known === undefined && kind !== "segments" && entry[idField] !== undefined)
    throw invalidEntry(`/${idField}`, "unknown", `nothing has the id ${key}`);
  const version = typeof entry.version === "number" ? entry.version : undefined;
  if (known !== undefined && version !== undefined && version !== known.version)
    throw invalidEntry(
      "/version",
      "version_conflict",
      `it is version ${known.version} by now: show it again, and change that`,
    );
  return { fields, known, isRetentionConfirmed: entry.confirm_retention === true };
};

const keyOf = async (work: Work, kind: Kind, entry: Columns): Promise<string | undefined> => {
  if (kind === "segments") return entry.client_id === undefined ? undefined : `${entry.client_id}:${entry.code}`;
  const id = entry[idFieldOf(kind)];
  if (id !== undefined && id !== null) return String(id);
  return useCasesOf(kind).keyOf?.(work, entry);
};
