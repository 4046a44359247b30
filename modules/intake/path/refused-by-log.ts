// Turns a record that the log refuses because of its content, mostly its size, into a dead letter.
import { createHash } from "node:crypto";
import { deadLetters } from "../../../edges/dead-letters.ts";
import type { Objects } from "../../../infra/objects/objects.ts";
import { classify } from "../../../infra/runtime/errors.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { SetAside } from "../../../infra/spool/sending.ts";
import { deadLetterOf } from "../../../stream/dead-letters.ts";
import type { AnyTopic, Position, Recorded, UnixMs } from "../../../stream/flow.ts";
import type { Letter, OutputMessage, Produce } from "../../../stream/messages.ts";
import type { RecordWire } from "../../../stream/wire.ts";

export interface RefusedPorts {
  /** Appends to the log in order and awaits it. */
  readonly send: Produce;
  readonly objects: Pick<Objects, "put">;
  readonly wire: () => RecordWire;
  /** The topics that this process writes. */
  readonly written: readonly AnyTopic[];
  readonly log: Pick<Log, "error">;
  readonly now?: () => UnixMs;
}

/** The refusing reader in the letter; no stage or sink has this name. */
const BY_LOG = "log";

/**
 * The order of durable effects: the letter is in the log before the record counts as sent. Bytes
 * that do not fit into a letter either are first put into object storage, under their hash. After a
 * crash in between, both are written again.
 */
export const refusedByLog = (ports: RefusedPorts): SetAside => {
  const { send, objects, now = Date.now } = ports;
  return async (message, error) => {
    const { topic, value } = message;
    const { code, reason } = reasonOf(error);
    const bytes = sizeOf(message);
    ports.log.error("record.refused_by_log", { topic, code, bytes, error });
    const why = `the log refused a record of ${bytes} bytes for ${topic}: ${reason}`;
    const letter = letterOf(message, routeOf(message, ports), code, why);
    try {
      return await send([deadLetterOf(letter, now())]);
    } catch (failure) {
      if (classify(failure) !== "data") throw failure;
    }
    const whole = value ?? Buffer.alloc(0);
    const key = `${REFUSED}${topic}/${createHash("sha256").update(whole).digest("hex")}`;
    await objects.put(key, whole);
    const pointing = {
      ...letter,
      message: `${why}; its value is the object ${key}`,
      key: null,
      value: null,
      headers: {},
    };
    await send([deadLetterOf(pointing, now())]);
  };
};

const REFUSED = "refused/";
/**
 * The shortest retention of a client. Such a value waits for a person; its letter, which describes
 * it, stays.
 */
const KEPT_MS = 30 * 86_400_000;

/** Returns the number of deleted values. */
export const deleteOldRefused = async (
  objects: Pick<Objects, "list" | "delete">,
  now: UnixMs,
  isClosing: () => boolean,
): Promise<number> => {
  let deleted = 0;
  for await (const { key, storedAt } of objects.list(REFUSED)) {
    if (isClosing()) break;
    if (now - storedAt <= KEPT_MS) continue;
    await objects.delete(key);
    deleted += 1;
  }
  return deleted;
};

const letterOf = (
  { topic, key, value, headers = {} }: OutputMessage,
  to: string,
  code: string,
  why: string,
): Letter => ({
  to,
  stage: BY_LOG,
  code,
  message: why,
  // The record never had a position in the log.
  position: nowhere(topic),
  key: typeof key === "string" ? Buffer.from(key) : key,
  value,
  headers,
});

const nowhere = (topic: string): Position => ({ topic, partition: -1, offset: -1 });

/**
 * Returns the dead-letter topic of the record's source; for unreadable records, the topic of all
 * other sources.
 */
const routeOf = ({ topic, value }: OutputMessage, { wire, written }: RefusedPorts): string => {
  const own = written.find(({ name }) => name === topic);
  let record: Recorded<unknown> | undefined;
  try {
    record = own && wire().decode(own, value, nowhere(topic));
  } catch {
    record = undefined;
  }
  return deadLetters(record);
};

/**
 * `MESSAGE_TOO_LARGE` becomes `message_too_large`; the client library hides it inside wrapper
 * errors.
 */
const reasonOf = (error: unknown): { readonly code: string; readonly reason: string } => {
  const { type, message, cause } = error as { readonly type?: unknown; message?: unknown; cause?: unknown };
  if (typeof type === "string") return { code: type.toLowerCase(), reason: String(message) };
  return cause instanceof Error ? reasonOf(cause) : { code: "refused_by_log", reason: String(message) };
};

const sizeOf = ({ key, value }: OutputMessage): number => (key?.length ?? 0) + (value?.length ?? 0);
