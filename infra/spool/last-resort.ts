// Where an edge puts events when neither the log nor its own disk takes them: one object for each
// group of requests. The objects are sent to the log later and then deleted.

import { randomUUID } from "node:crypto";
import { hit } from "#failpoint";
import type { UnixMs } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { ObjectMissing, type Objects } from "../objects/objects.ts";
import { within } from "../runtime/timing/time-limit.ts";
import type { Send } from "./sending.ts";
import {
  firstWithin,
  headFrame,
  payloadAt,
  readHead,
  recordFrame,
  recordsFrom,
  type Schemas,
  sizeOf,
} from "./spool-format.ts";

export interface LastResort {
  /**
   * Resolves once an object holds the messages. Concurrent requests share one object. Throws the
   * error of the store, or after PUT_MS of silence.
   */
  readonly put: (messages: readonly OutputMessage[], label: string) => Promise<void>;
  /** The messages that this process, and earlier ones of its name, have put and not sent yet. */
  readonly held: () => { readonly messages: number; readonly oldestAt: UnixMs | undefined };
  /**
   * Sends the oldest object and deletes it. Resolves with its number of messages; 0 if there is
   * none.
   */
  readonly drain: (send: Send) => Promise<number>;
  /**
   * Finds the objects of earlier processes of this name; `held` does not know them before it has
   * resolved.
   */
  readonly look: () => Promise<void>;
}

const PREFIX = "last-resort/";
/** A sender waits for it, after waiting 2 s for the log. */
const PUT_MS = 5_000;
const GROUP_BYTES = 8 * 1024 * 1024;
const KEY = /^last-resort\/[^/]+\/(\d{4}-\d\d-\d\dT)(\d\d)(\d\d)([\d.]+Z)-[0-9a-f-]{36}((?:\.[a-z0-9]+-\d+)+)$/;

interface Letters {
  readonly key: string;
  readonly at: UnixMs;
  readonly byLabel: ReadonlyMap<string, number>;
}
/**
 * Reads the counts in the key of an object, so that counting reads no object. Undefined for a key
 * of another form.
 */
const lettersOf = (key: string): Letters | undefined => {
  const [, day, hour, minute, rest, counts] = KEY.exec(key) ?? [];
  if (counts === undefined) return undefined;
  const byLabel = new Map(
    counts
      .slice(1)
      .split(".")
      .map((one) => one.split("-") as [string, string])
      .map(([label, count]) => [label, Number(count)]),
  );
  return { key, at: Date.parse(`${day}${hour}:${minute}:${rest}`), byLabel };
};
const sizeIn = ({ byLabel }: Letters): number => [...byLabel.values()].reduce((sum, count) => sum + count, 0);

interface QueuedObject {
  readonly messages: readonly OutputMessage[];
  readonly label: string;
  readonly frame: Buffer;
  readonly settle: (error?: unknown) => void;
}

/**
 * Each takes about 300 bytes in memory. An edge without a log and without a disk writes some 20 a
 * second, so this is hours of them.
 */
const MOST_OBJECTS = 200_000;

/**
 * Labels are lower-case words, because they are part of keys. The order of durable effects: an
 * object is put, then acknowledged; it is sent, then deleted. After a crash in between, the same
 * bytes are sent again. A put that was given up may have succeeded: its sender tries again under
 * the same ids, and the keeper sends the object.
 */
export const openLastResort = (settings: LastResortSettings): LastResort => {
  const { objects } = settings;
  const stored = new StoredObjects();
  const puts = openPuts(settings, stored);
  return {
    put: (messages, label) =>
      stored.count >= MOST_OBJECTS
        ? Promise.reject(new Error(`${MOST_OBJECTS} objects wait already`))
        : puts.add(messages, label),
    held: () => ({ messages: stored.messages + puts.underWay(), oldestAt: stored.oldest?.at }),
    drain: async (send) => {
      const { oldest } = stored;
      if (oldest === undefined) return 0;
      await sendObject(objects, oldest.key, send).catch((error) => {
        if (!(error instanceof DamagedObject)) throw error;
        // It stays in the store for an operator to look at, and the later objects go on.
        settings.onDamaged?.(oldest.key, error);
      });
      return stored.forgetOldest();
    },
    look: async () => stored.learn(await lettersUnder(objects, prefixOf(settings))),
  };
};

interface LastResortSettings {
  readonly objects: Objects;
  readonly instance: string;
  readonly schemas: Schemas;
  readonly now?: () => UnixMs;
  readonly onDamaged?: (key: string, error: unknown) => void;
}

const prefixOf = ({ instance }: LastResortSettings): string => `${PREFIX}${instance}/`;

/** Puts concurrent messages into one object, one object after the other. */
const openPuts = (settings: LastResortSettings, stored: StoredObjects) => {
  const { objects, schemas, now = Date.now } = settings;
  const queue: QueuedObject[] = [];
  let isWriting = false;
  let underWay = 0;
  let latest = 0;

  const writeGroup = async (group: readonly QueuedObject[]): Promise<void> => {
    const byLabel = countsOf(group);
    // Objects are drained in the order of their keys, so no two of a process have the same time.
    latest = Math.max(now(), latest + 1);
    const counts = [...byLabel].map(([label, count]) => `.${label}-${count}`).join("");
    const time = new Date(latest).toISOString().replaceAll(":", "");
    const key = `${prefixOf(settings)}${time}-${randomUUID()}${counts}`;
    try {
      await inTime(objects.put(key, Buffer.concat([headFrame(schemas), ...group.map(({ frame }) => frame)])));
      stored.add({ key, at: latest, byLabel });
      for (const { settle } of group) settle();
    } catch (error) {
      for (const { settle } of group) settle(error);
    }
  };
  const write = async (): Promise<void> => {
    await new Promise(setImmediate);
    while (queue.length > 0) {
      await writeGroup(queue.splice(0, firstWithin(queue, GROUP_BYTES)));
    }
    isWriting = false;
  };
  const add = (messages: readonly OutputMessage[], label: string): Promise<void> =>
    new Promise((resolve, reject) => {
      underWay += messages.length;
      const settle = (error?: unknown): void => {
        underWay -= messages.length;
        error === undefined ? resolve() : reject(error);
      };
      queue.push({ messages, label, frame: recordFrame({ at: now(), label, messages }), settle });
      if (isWriting) return;
      isWriting = true;
      void write();
    });
  return { add, underWay: () => underWay };
};

/** The objects that this process knows of, oldest first, and the messages in them. */
class StoredObjects {
  /** The number of messages. Every request reads it, so it is kept and not added up each time. */
  messages = 0;
  readonly #all: Letters[] = [];

  get count(): number {
    return this.#all.length;
  }
  get oldest(): Letters | undefined {
    return this.#all[0];
  }

  add(letters: Letters): void {
    this.#all.push(letters);
    this.messages += sizeIn(letters);
  }

  /** Returns how many messages it held. */
  forgetOldest(): number {
    const size = sizeIn(this.#all.shift()!);
    this.messages -= size;
    return size;
  }

  learn(found: readonly Letters[]): void {
    const known = new Set(this.#all.map(({ key }) => key));
    for (const letters of found) if (!known.has(letters.key)) this.add(letters);
    this.#all.sort((a, b) => (a.key < b.key ? -1 : 1));
  }
}

const countsOf = (group: readonly QueuedObject[]): ReadonlyMap<string, number> => {
  const byLabel = new Map<string, number>();
  for (const { label, messages } of group) byLabel.set(label, (byLabel.get(label) ?? 0) + messages.length);
  return byLabel;
};

const lettersUnder = async (objects: Objects, prefix: string): Promise<readonly Letters[]> => {
  const found: Letters[] = [];
  for await (const { key } of objects.list(prefix)) {
    const letters = lettersOf(key);
    if (letters !== undefined) found.push(letters);
  }
  return found;
};

class DamagedObject extends Error {}

/** An object that another process has sent meanwhile is done. */
const sendObject = async (objects: Objects, key: string, send: Send): Promise<void> => {
  const body = await objects.get(key).catch((error) => {
    if (error instanceof ObjectMissing) return undefined;
    throw error;
  });
  if (body === undefined) return;
  const head = payloadAt(body, 0);
  if (head === null) throw new DamagedObject(`${key} has no readable beginning`);
  const { records, end } = recordsFrom(body, sizeOf(head));
  if (end !== body.length) throw new DamagedObject(`${key} is damaged at byte ${end}`);
  await send(
    records.flatMap(({ messages }) => messages),
    readHead(head),
  );
  hit("last-resort-after-send");
  await objects.delete(key);
};

/**
 * Sends the objects of every instance that are older than `ageMs`. They belong to instances that
 * never came back, since a living one sends its own within seconds of the log's return. Resolves
 * with the number of messages; continues past a damaged object, and throws its error at the end.
 */
export const drainAbandoned = async (
  objects: Objects,
  send: Send,
  {
    ageMs,
    now = Date.now,
    isClosing = () => false,
  }: { readonly ageMs: number; readonly now?: () => UnixMs; readonly isClosing?: () => boolean },
): Promise<number> => {
  let sent = 0;
  let damage: unknown;
  for await (const { key } of objects.list(PREFIX)) {
    if (isClosing()) break;
    const letters = lettersOf(key);
    if (letters === undefined || letters.at > now() - ageMs) continue;
    try {
      await sendObject(objects, key, send);
      sent += sizeIn(letters);
    } catch (error) {
      if (!(error instanceof DamagedObject)) throw error;
      damage ??= error;
    }
  }
  if (damage !== undefined) throw damage;
  return sent;
};

/** The messages of all instances in the last resort, by label, and the time of the oldest. */
export const lastResortHeld = async (
  objects: Objects,
): Promise<{ readonly byLabel: Readonly<Record<string, number>>; readonly oldestAt: UnixMs | undefined }> => {
  const byLabel: Record<string, number> = {};
  let oldestAt: UnixMs | undefined;
  for await (const { key } of objects.list(PREFIX)) {
    const letters = lettersOf(key);
    if (letters === undefined) continue;
    oldestAt = Math.min(oldestAt ?? letters.at, letters.at);
    for (const [label, count] of letters.byLabel) byLabel[label] = (byLabel[label] ?? 0) + count;
  }
  return { byLabel, oldestAt };
};

const inTime = (put: Promise<void>): Promise<void> =>
  within(PUT_MS, put, `object storage did not answer within ${PUT_MS} ms`);
