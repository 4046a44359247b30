// The life of a dead letter: opened by a failure, sent again until it passes, parked when that
// never helps, discarded by a person.

import { prefixed, uuidOf } from "../../../domain/ids.ts";
import type { Position, UnixMs } from "../../../stream/flow.ts";

/** Who refused what: a dead-letter topic without its ending. */
export type LetterKind = "clicks" | "pixel" | "s2s";
export const letterKinds: readonly LetterKind[] = ["clicks", "pixel", "s2s"];

/** The dead-letter topics and the kind of what lies in each. */
export const letterTopics: Readonly<Record<LetterKind, string>> = {
  clicks: "clicks.dlq",
  pixel: "pixel.dlq",
  s2s: "s2s.dlq",
};

export const letterKindOf = (topic: string): LetterKind =>
  (Object.keys(letterTopics) as LetterKind[]).find((kind) => letterTopics[kind] === topic) ?? "s2s";

/**
 * waiting: will be sent again at `next_attempt_at`. retrying: is being sent, or was sent and has
 * not come through yet. reprocessed: came through.
 * parked: ten times in vain, waits for a person. discarded: a person gave it up, with a reason.
 * Every letter is in exactly one of them (law C4).
 */
export type LetterState = "waiting" | "retrying" | "reprocessed" | "parked" | "discarded";
export const letterStates: readonly LetterState[] = ["waiting", "retrying", "reprocessed", "parked", "discarded"];

/** What one record of a dead-letter topic says. */
export interface Failure {
  /**
   * Who refused which bytes, and where they lay: the same when it is reported twice, or read again.
   */
  readonly failure_id: string;
  readonly kind: LetterKind;
  /** Of what was refused first; a record that is sent again carries it in a header. */
  readonly root: string;
  /**
   * What would be sent again, where it can be read: finds the letter of a failure that lost its
   * header on the way.
   */
  readonly subject: string | null;
  readonly stage: string;
  readonly code: string;
  readonly message: string;
  /** Where the record lay that was refused. */
  readonly source: Position;
  /** Where its bytes are kept. */
  readonly kept: Position;
  readonly event_id: string | null;
  readonly client_id: number | null;
  /** Whose settings read it: src_7, or a payment processor; null: no one's. */
  readonly sender: string | null;
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
  readonly client_id: number | null;
  readonly sender: string | null;
  /** How often it was sent again and failed again. */
  readonly attempts: number;
  readonly first_failed_at: UnixMs;
  readonly last_failed_at: UnixMs;
  /** Of a waiting one. */
  readonly next_attempt_at: UnixMs | null;
  /** Of one that is being sent: no other process takes it until then. */
  readonly lease_until: UnixMs | null;
  /** When the log had it again. */
  readonly sent_at: UnixMs | null;
  readonly closed_at: UnixMs | null;
  readonly closed_by: string | null;
  readonly close_reason: string | null;
}

const MINUTE_MS = 60_000;
/**
 * Before the first, second, ... further attempt; the last one before every later one
 * (docs/design/contracts.md, "Dead letters").
 */
const WAITS_MS = [1, 5, 25, 120, 720].map((minutes) => minutes * MINUTE_MS);
/** Up to a fifth longer, never shorter: what failed together does not come back together. */
const JITTER = 0.2;
/** 1 + 5 + 25 min + 2 h + 6 x 12 h: 3.1 days, within the week that events.raw is kept. */
export const MOST_ATTEMPTS = 10;

/** `random` in [0, 1). */
export const waitBefore = (attempts: number, random: number): number =>
  Math.round(WAITS_MS[Math.min(attempts, WAITS_MS.length - 1)]! * (1 + JITTER * random));

/** One reader's letter of one refused record: the same however often the log is read. */
export const letterIdOf = ({ root, stage }: Pick<Failure, "root" | "stage">): string =>
  prefixed("dl", uuidOf("dead letter", root, stage));

const isOpen = ({ state }: Pick<Letter, "state">): boolean =>
  state === "waiting" || state === "retrying" || state === "parked";

/**
 * An operator took the record out of the way because it stops its reader: sent again by itself it
 * would stop it again.
 */
export const SET_ASIDE = "set_aside";

/** When it is tried next: at its time, or when a person says so. */
const next = (
  { code, failed_at }: Failure,
  attempts: number,
  random: number,
): Pick<Letter, "state" | "next_attempt_at"> =>
  code === SET_ASIDE || attempts >= MOST_ATTEMPTS
    ? { state: "parked", next_attempt_at: null }
    : { state: "waiting", next_attempt_at: failed_at + waitBefore(attempts, random) };

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
  client_id: failure.client_id,
  sender: failure.sender,
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
 * A failure of what was sent again ends that attempt; it also reopens a letter that had been taken
 * for passed (its reader was slower than thought).
 * Any other one, of a second copy of the event, is nothing new: the letter waits already, or was
 * given up.
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
 * What is known before a batch: letters by id, those of a subject and stage, and the ids of
 * failures that are known already.
 */
export interface Known {
  readonly letters: readonly Letter[];
  readonly failures: ReadonlySet<string>;
}
export interface Indexed {
  /** New and changed ones, as they are after the batch. */
  readonly letters: readonly Letter[];
  /** Failures seen for the first time, each with its letter. */
  readonly failures: readonly { readonly letter_id: string; readonly failure: Failure }[];
}

export const subjectKey = (subject: string, stage: string): string => `${subject} ${stage}`;

/**
 * Folds failures into letters, in order. The letter of a failure is that of its root and stage;
 * else, where the record can be read, the one that is not discarded of its subject and stage; else
 * a new one. The same failures again, in any cut, change nothing.
 */
export const indexFailures = (known: Known, failures: readonly Failure[], random: () => number): Indexed => {
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
    const ofRoot = byId.get(letterIdOf(failure));
    const ofSubject =
      failure.subject === null ? undefined : byId.get(bySubject.get(subjectKey(failure.subject, failure.stage)) ?? "");
    const letter = ofRoot ?? ofSubject;
    const id = letter?.letter_id ?? letterIdOf(failure);
    fresh.push({ letter_id: id, failure });
    changed.add(id);
    note(letter === undefined ? opened(failure, random()) : failedAgain(letter, failure, random()));
  }
  return { letters: [...changed].map((id) => byId.get(id)!), failures: fresh };
};

/** Is due, or was taken by a process that did not come to the end of sending it. */
export const mayBeClaimed = (letter: Letter, now: UnixMs): boolean =>
  letter.state === "waiting"
    ? letter.next_attempt_at! <= now
    : letter.state === "retrying" && letter.sent_at === null && letter.lease_until! <= now;
