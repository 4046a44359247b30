// Restores a window of the archive into a separate topic: first a plan, then file by file. A
// stopped restore continues where it stopped.
import { createHash } from "node:crypto";
import { hit } from "#failpoint";
import { ObjectMissing, type Objects } from "../../infra/objects/objects.ts";
import type { UnixMs } from "../../stream/flow.ts";
import type { InputMessage, OutputMessage, Produce } from "../../stream/messages.ts";
import { filesOf, messageOf, readFile } from "./archive-reads.ts";
import { type ArchiveState, seamsOf } from "./check.ts";
import { type ArchivedRecord, DamagedArchive } from "./container.ts";
import { type ArchiveFile, HOUR_MS, hourOf, hourText } from "./names.ts";
import type { WithheldFilter } from "./withheld-filter.ts";

/**
 * The records that the broker appended from `from` up to, but not including, `to`. With a client,
 * only its records: every key begins with the client's id.
 */
export interface Window {
  readonly topic: string;
  readonly from: UnixMs;
  readonly to: UnixMs;
  readonly clientId?: number;
}
/** The header with the original place of a record, e.g. `events.raw/7@12345`. */
export const RESTORED_FROM = "tributary-restored-from";

const isIn = ({ from, to, clientId }: Window, { appended_at, key }: ArchivedRecord): boolean =>
  appended_at >= from &&
  appended_at < to &&
  (clientId === undefined || key?.subarray(0, `${clientId}:`.length).equals(Buffer.from(`${clientId}:`)) === true);

const filesIn = async (objects: Objects, { topic, from, to }: Window): Promise<readonly ArchiveFile[]> => {
  const files: ArchiveFile[] = [];
  for await (const file of filesOf(objects, topic, { from, to })) files.push(file);
  return files;
};

export interface RestorePlan {
  readonly files: number;
  readonly events: number;
  /** The size of keys and values. */
  readonly bytes: number;
  /** Hours of the window without a file: nothing was received in them, or they are lost. */
  readonly missing_hours: readonly string[];
  /** Offsets between two files of the window that no file contains. */
  readonly gaps: ArchiveState["gaps"];
  readonly damaged: ArchiveState["damaged"];
}

/** Reads and verifies every file of the window. */
export const planRestore = async (
  objects: Objects,
  window: Window,
  onFile: (done: number, total: number) => void = () => undefined,
): Promise<RestorePlan> => {
  const files = await filesIn(objects, window);
  const damaged: { key: string; message: string }[] = [];
  let [events, bytes] = [0, 0];
  for (const [n, file] of files.entries()) {
    try {
      for (const record of (await readFile(objects, file)).records) {
        if (!isIn(window, record)) continue;
        events++;
        bytes += (record.key?.length ?? 0) + (record.value?.length ?? 0);
      }
    } catch (error) {
      if (!(error instanceof DamagedArchive)) throw error;
      damaged.push({ key: file.key, message: error.message });
    }
    onFile(n + 1, files.length);
  }
  const present = new Set(files.map(({ hour }) => hour));
  const missing: string[] = [];
  for (let hour = hourOf(window.from); hour < window.to; hour += HOUR_MS)
    if (!present.has(hour)) missing.push(hourText(hour));
  return { files: files.length, events, bytes, missing_hours: missing, gaps: seamsOf(files).gaps, damaged };
};

/**
 * The progress of a restore. Stored beside the archive under the name of its window, so that the
 * same command continues it.
 */
export interface RestoreState {
  readonly topic: string;
  readonly from: UnixMs;
  readonly to: UnixMs;
  readonly client_id: number | null;
  readonly operation_id: string;
  /**
   * The last file whose records are acknowledged. Files are restored in the order of their names.
   */
  readonly done: string;
  readonly files: number;
  readonly events: number;
  readonly suppressed: number;
  readonly finished_at: UnixMs | null;
}
const stateKey = ({ topic, from, to, clientId }: Window): string =>
  `restores/${createHash("sha256")
    .update(`${topic}/${from}/${to}/${clientId ?? ""}`)
    .digest("hex")
    .slice(0, 16)}.json`;

/** Null if this window was never restored. */
export const restoreState = async (objects: Objects, window: Window): Promise<RestoreState | null> => {
  try {
    return JSON.parse(String(await objects.get(stateKey(window)))) as RestoreState;
  } catch (error) {
    if (error instanceof ObjectMissing) return null;
    throw error;
  }
};

export interface RestorePorts {
  readonly into: string;
  readonly produce: Produce;
  readonly withheld: WithheldFilter;
  readonly onFile?: (done: number, total: number, state: RestoreState) => void;
}

/**
 * Keys and values are restored byte for byte, with their original place as a header. The same key
 * goes to the same partition, where the records keep their order. For each file: 1. its records are
 * produced and acknowledged; after a crash here the file is restored twice, and ids make it count
 * once; 2. the state names the file, so that the same command continues behind it. Throws Damaged,
 * because unreadable files must not be skipped silently.
 */
export const restore = async (
  objects: Objects,
  window: Window,
  begun: Pick<RestoreState, "operation_id" | "done" | "files" | "events" | "suppressed">,
  { into, produce, withheld, onFile }: RestorePorts,
): Promise<RestoreState> => {
  const { topic, from, to, clientId } = window;
  let state: RestoreState = { topic, from, to, client_id: clientId ?? null, finished_at: null, ...begun };
  const save = (changes: Partial<RestoreState>): Promise<void> => {
    state = { ...state, ...changes };
    return objects.put(stateKey(window), Buffer.from(`${JSON.stringify(state)}\n`));
  };
  await save({});
  const files = await filesIn(objects, window);
  for (const [n, file] of files.entries()) {
    if (file.key <= state.done) continue;
    const { records } = await readFile(objects, file);
    const isWithheld = await withheld();
    const back: OutputMessage[] = [];
    let suppressed = 0;
    for (const record of records) {
      if (!isIn(window, record)) continue;
      const { key, value, headers } = messageOf(record);
      if (isWithheld?.(messageOf(record), file.partition) === true) suppressed++;
      else
        back.push({
          topic: into,
          key,
          value,
          headers: { ...present(headers), [RESTORED_FROM]: `${topic}/${file.partition}@${record.offset}` },
        });
    }
    if (back.length > 0) await produce(back);
    hit("after-restored");
    await save({
      done: file.key,
      files: state.files + 1,
      events: state.events + back.length,
      suppressed: state.suppressed + suppressed,
    });
    onFile?.(n + 1, files.length, state);
  }
  await save({ finished_at: Date.now() });
  return state;
};

const present = (headers: InputMessage["headers"]): Readonly<Record<string, string | Buffer>> =>
  Object.fromEntries(
    Object.entries(headers).filter((entry): entry is [string, string | Buffer] => entry[1] !== undefined),
  );
