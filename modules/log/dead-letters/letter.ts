// The life of a dead letter: a failure opens it, it is sent again until it passes, it is parked
// after too many failures, and a person may discard it.

import { prefixed, spelling, uuidOf } from "../../../domain/ids.ts";
import { isNeverEvent, type LetterKind } from "../../../edges/dead-letters.ts";
import type { Position, UnixMs } from "../../../stream/flow.ts";

/**
 * waiting: will be sent again at `next_attempt_at`.
 * retrying: is being sent, or was sent and is not confirmed yet.
 * reprocessed: came through.
 * parked: failed ten times and waits for a person.
 * discarded: a person gave it up, with a reason.
 * Every letter is in exactly one state (law C4).
 */
export type LetterState = "waiting" | "retrying" | "reprocessed" | "parked" | "discarded";
export const letterStates: readonly LetterState[] = ["waiting", "retrying", "reprocessed", "parked", "discarded"];

/** The contents of one record of a dead-letter topic. */
export interface Failure {
  /**
   * Derived from the reader, the refused bytes and their position, so that it stays the same when
   * the failure is reported or read twice.
   */
  readonly failure_id: string;
  readonly kind: LetterKind;
  /** Id of the first refusal; a record that is sent again carries it in a header. */
  readonly root: string;
  /**
   * The id of the event that would be sent again, if the record can be decoded. It finds the letter
   * of a failure whose header was lost on the way.
   */
  readonly subject: string | null;
  /**
   * The subject under which letters of before have a claim: that of its event id alone, which
   * several orders may share. Null: it is `subject`.
   */
  readonly subject_of_before: string | null;
  readonly stage: string;
  readonly code: string;
  readonly message: string;
  /** The position of the refused record. */
  readonly source: Position;
  /** The position of its bytes in the dead-letter topic. */
  readonly kept: Position;
  readonly event_id: string | null;
  /** The order that the record is about. Null: none, or the record cannot be decoded. */
  readonly order_id: string | null;
  readonly client_id: number | null;
  /** The source (src_7) or payment provider with whose settings it was read; null: neither. */
  readonly sender: string | null;
  /** The sender had shown no credential. */
  readonly is_stranger: boolean;
  readonly first_failed_at: UnixMs;
  readonly failed_at: UnixMs;
}

export interface Letter {
  readonly letter_id: string;
  readonly kind: LetterKind;
  readonly state: LetterState;
  readonly stage: string;
  readonly code: string;
  readonly message: string;
  readonly source: Position;
  readonly kept: Position;
  readonly root: string;
  readonly subject: string | null;
  readonly event_id: string | null;
  readonly order_id: string | null;
  readonly client_id: number | null;
  readonly sender: string | null;
  readonly is_stranger: boolean;
  /** How often it was sent again and failed again. */
  readonly attempts: number;
  readonly first_failed_at: UnixMs;
  readonly last_failed_at: UnixMs;
  /** Set while it is waiting. */
  readonly next_attempt_at: UnixMs | null;
  /** The end of the lease while the letter is being sent; no other process claims it before. */
  readonly lease_until: UnixMs | null;
  /** When the log took it again. */
  readonly sent_at: UnixMs | null;
  readonly closed_at: UnixMs | null;
  readonly closed_by: string | null;
  readonly close_reason: string | null;
}

const MINUTE_MS = 60_000;
/**
 * Waits before the first, second, ... retry; the last one applies to every later retry
 * (docs/design/contracts.md, "Dead letters").
 */
const WAITS_MS = [1, 5, 25, 120, 720].map((minutes) => minutes * MINUTE_MS);
/** Adds up to a fifth and never shortens, so that letters that failed together spread out. */
const JITTER = 0.2;
/** 1 + 5 + 25 min + 2 h + 6 x 12 h: 3.1 days, within the week that events.raw is kept. */
export const MOST_ATTEMPTS = 10;

/** Milliseconds until the next retry. `random` is in [0, 1). */
export const waitBefore = (attempts: number, random: number): number =>
  Math.round(WAITS_MS[Math.min(attempts, WAITS_MS.length - 1)]! * (1 + JITTER * random));

/** How long the sample of what never becomes an event is kept. */
const SAMPLE_MS = 48 * 60 * MINUTE_MS;

/**
 * True when a letter that never becomes an event has been kept long enough. Until then it waits,
 * and is sent only if a person makes it due.
 */
export const isOver = ({ code, is_stranger, last_failed_at }: Letter, now: UnixMs): boolean =>
  isNeverEvent(code, is_stranger) && now >= last_failed_at + SAMPLE_MS;

/** The id of one reader's letter for one refused record; the same however often the log is read. */
export const letterIdOf = ({ root, stage }: Pick<Failure, "root" | "stage">): string =>
  prefixed("dl", uuidOf("dead letter", root, stage));

const isOpen = ({ state }: Pick<Letter, "state">): boolean =>
  state === "waiting" || state === "retrying" || state === "parked";

/**
 * The code of a record that an operator set aside because it stops its reader. It is not retried
 * automatically, since it would stop the reader again.
 */
export const SET_ASIDE = "set_aside";

/**
 * Returns the state after a failure: waiting until the next retry, or until a sample is discarded;
 * or parked until a person decides.
 */
const next = (
  { code, is_stranger, failed_at }: Failure,
  attempts: number,
  random: number,
): Pick<Letter, "state" | "next_attempt_at"> => {
  if (isNeverEvent(code, is_stranger)) return { state: "waiting", next_attempt_at: failed_at + SAMPLE_MS };
  return code === SET_ASIDE || attempts >= MOST_ATTEMPTS
    ? { state: "parked", next_attempt_at: null }
    : { state: "waiting", next_attempt_at: failed_at + waitBefore(attempts, random) };
};

const opened = (failure: Failure, random: number): Letter => ({
  letter_id: letterIdOf(failure),
  kind: failure.kind,
  ...next(failure, 0, random),
  stage: failure.stage,
  code: failure.code,
  message: failure.message,
  source: failure.source,
  kept: failure.kept,
  root: failure.root,
  subject: failure.subject,
  event_id: failure.event_id,
  order_id: failure.order_id,
  client_id: failure.client_id,
  sender: failure.sender,
  is_stranger: failure.is_stranger,
  attempts: 0,
  first_failed_at: Math.min(failure.first_failed_at, failure.failed_at),
  last_failed_at: failure.failed_at,
  lease_until: null,
  sent_at: null,
  closed_at: null,
  closed_by: null,
  close_reason: null,
});

/**
 * Applies a further failure to a letter. A failure of the record that was sent again ends that
 * attempt, and reopens a letter that was marked as passed too early because its reader was slow.
 * A failure of a second copy of the event changes nothing: the letter waits already, or was
 * discarded.
 */
const failedAgain = (letter: Letter, failure: Failure, random: number): Letter => {
  const updated = {
    ...letter,
    code: failure.code,
    message: failure.message,
    last_failed_at: Math.max(letter.last_failed_at, failure.failed_at),
  };
  if (letter.state !== "retrying" && letter.state !== "reprocessed")
    return letter.state === "discarded" ? letter : updated;
  const attempts = letter.attempts + 1;
  return {
    ...updated,
    ...next(failure, attempts, random),
    attempts,
    lease_until: null,
    sent_at: null,
    closed_at: null,
  };
};

/**
 * The state before a batch: letters by id, letters by subject and stage, and the ids of failures
 * that are already indexed.
 */
export interface KnownLetters {
  readonly letters: readonly Letter[];
  readonly failures: ReadonlySet<string>;
}
export interface IndexedLetters {
  /** New and changed letters, as they are after the batch. */
  readonly letters: readonly Letter[];
  /** Failures that the index did not hold yet, each with its letter. */
  readonly failures: readonly { readonly letter_id: string; readonly failure: Failure }[];
}

export const subjectKey = (subject: string, stage: string): string => `${subject} ${stage}`;

/** False for a letter of before whose event id another order has, too. */
const mayBeOfBefore = ({ order_id }: Letter, failure: Failure): boolean =>
  order_id === null || failure.order_id === null || spelling(order_id) === spelling(failure.order_id);

/**
 * Folds failures into letters, in order. A failure belongs to the letter of its root and stage;
 * else, where the record can be decoded, to the letter of its subject and stage that is not
 * discarded, or to one that has its subject of before; else to a new one. Folding the same failures
 * again, split in any way, changes nothing.
 */
export const indexFailures = (
  known: KnownLetters,
  failures: readonly Failure[],
  random: () => number,
): IndexedLetters => {
  const byId = new Map<string, Letter>();
  const bySubject = new Map<string, string>();
  const note = (letter: Letter): void => {
    byId.set(letter.letter_id, letter);
    if (letter.subject === null || letter.state === "discarded") return;
    const key = subjectKey(letter.subject, letter.stage);
    const other = byId.get(bySubject.get(key) ?? "");
    if (other === undefined || !isOpen(other)) bySubject.set(key, letter.letter_id);
  };
  for (const letter of known.letters) note(letter);
  const seen = new Set(known.failures);
  const changed = new Set<string>();
  const fresh: { letter_id: string; failure: Failure }[] = [];
  for (const failure of failures) {
    if (seen.has(failure.failure_id)) continue;
    seen.add(failure.failure_id);
    const ofSubject = (subject: string | null): Letter | undefined =>
      subject === null ? undefined : byId.get(bySubject.get(subjectKey(subject, failure.stage)) ?? "");
    const ofBefore = ofSubject(failure.subject_of_before);
    const letter =
      byId.get(letterIdOf(failure)) ??
      ofSubject(failure.subject) ??
      (ofBefore !== undefined && mayBeOfBefore(ofBefore, failure) ? ofBefore : undefined);
    const id = letter?.letter_id ?? letterIdOf(failure);
    fresh.push({ letter_id: id, failure });
    changed.add(id);
    note(letter === undefined ? opened(failure, random()) : failedAgain(letter, failure, random()));
  }
  return { letters: [...changed].map((id) => byId.get(id)!), failures: fresh };
};

/** True when it is due, or when its lease has expired because the sender died. */
export const mayBeClaimed = (letter: Letter, now: UnixMs): boolean =>
  letter.state === "waiting"
    ? letter.next_attempt_at! <= now
    : letter.state === "retrying" && letter.sent_at === null && letter.lease_until! <= now;
