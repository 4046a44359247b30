// Sends due letters into the pipeline again: claims them, produces the kept bytes under the same
// id, and marks them as sent.
import { hit } from "#failpoint";
import type { Hides } from "../../../domain/personal/suppression.ts";
import { placeOf } from "../../../infra/kafka/kafka.ts";
import type { Position, UnixMs } from "../../../stream/flow.ts";
import type { InputMessage, OutputMessage, Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";
import { reentryOf } from "./failure.ts";
import { isOver, type Letter } from "./letter.ts";
import type { Attempt } from "./letter-index.ts";

type OriginalMessage = Pick<InputMessage, "key" | "value" | "headers">;
/** The root of a claimed letter, and the position of the record that keeps its bytes. */
export interface SentLetter {
  readonly root: string;
  readonly first: Position;
}

/**
 * The operations of the index that sending needs; modules/log/dead-letters/letter-index.ts
 * implements them.
 */
interface Claims {
  readonly claim: (most: number, now: UnixMs, leaseMs: number) => Promise<readonly Letter[]>;
  readonly sent: (letters: readonly Attempt[], now: UnixMs) => Promise<void>;
  readonly park: (letters: readonly Attempt[], message: string) => Promise<void>;
  readonly discard: (letters: readonly Attempt[], reason: string, now: UnixMs) => Promise<void>;
}
export interface RetryPorts {
  readonly claims: Claims;
  /** Kept records by `placeOf`; a record that retention has removed is absent. */
  readonly pick: (places: readonly Position[]) => Promise<ReadonlyMap<string, OriginalMessage>>;
  readonly produce: Produce;
  readonly wire: Wire;
  /**
   * Runs the admission of an edge again on the refused request. Returns records, or the letter
   * again, without its bytes; undefined when no edge kept it.
   */
  readonly readmit: (kept: OriginalMessage, letter: SentLetter) => Promise<readonly OutputMessage[] | undefined>;
  /**
   * Returns the test for erased subjects. Rejects while it is unavailable, and then nothing is
   * sent.
   */
  readonly hides: () => Promise<Hides | undefined>;
  readonly clock: () => UnixMs;
}

type RetryTarget = readonly OutputMessage[] | "bytes_lost" | "no_way_back" | "erased";

/**
 * Sending takes seconds; a minute outlasts the restart of a broker. It is also how long a letter of
 * a killed keeper waits.
 */
const LEASE_MS = 60_000;

/**
 * Sends at most `most` letters and returns how many were claimed. A record that several readers
 * refused is sent once. The order of effects:
 * 1. Claim, with a lease. After a crash here the lease ends, and another process claims. Samples
 * whose time is over are discarded, which is one statement, and go no further.
 * 2. Produce the kept bytes, with the letter in a header. After a crash here they are sent again
 * under the same id, which makes one row.
 * 3. Mark as sent. The next keeper that looks confirms it (confirm-reprocessed.ts).
 */
export const sendDue = async (
  { claims, pick, produce, hides, clock, ...ports }: RetryPorts,
  most: number,
): Promise<number> => {
  const claimed = await claims.claim(most, clock(), LEASE_MS);
  if (claimed.length === 0) return 0;
  hit("dlq-claimed");
  const now = clock();
  const over = claimed.filter((letter) => isOver(letter, now));
  if (over.length > 0) await claims.discard(over, "it never becomes an event: its sample was kept for 48 hours", now);
  const letters = claimed.filter((letter) => !isOver(letter, now));
  if (letters.length === 0) return claimed.length;
  const hidden = await hides();
  const kept = await pick(letters.map((letter) => letter.kept));
  const messages = new Map<string, RetryTarget>();
  const sent: Letter[] = [];
  const ends: Record<Exclude<RetryTarget, readonly OutputMessage[]>, Letter[]> = {
    bytes_lost: [],
    no_way_back: [],
    erased: [],
  };
  for (const { root, kept: place } of letters) {
    // If the bytes of one letter of a root are lost, another letter of it may still have them.
    if ((messages.get(root) ?? "bytes_lost") !== "bytes_lost") continue;
    const record = kept.get(placeOf(place));
    messages.set(
      root,
      record === undefined ? "bytes_lost" : await reentry(ports, record, { root, first: place }, hidden),
    );
  }
  for (const letter of letters) {
    const message = messages.get(letter.root)!;
    if (typeof message === "string") ends[message].push(letter);
    else sent.push(letter);
  }
  if (ends.bytes_lost.length > 0) await claims.park(ends.bytes_lost, "its bytes are no longer in the log");
  if (ends.no_way_back.length > 0)
    await claims.park(ends.no_way_back, "no reader of the pipeline refused it, so there is no way back");
  if (ends.erased.length > 0) await claims.discard(ends.erased, "its subject was erased", clock());
  if (sent.length > 0) {
    await produce([...messages.values()].flatMap((message) => (typeof message === "string" ? [] : message)));
    hit("dlq-produced");
    await claims.sent(sent, clock());
  }
  return claimed.length;
};

const reentry = async (
  { wire, readmit }: Pick<RetryPorts, "wire" | "readmit">,
  record: OriginalMessage,
  letter: SentLetter,
  hidden: Hides | undefined,
): Promise<RetryTarget> => {
  const again = await reentryOf(wire, record, letter.root, hidden);
  if (again === "no_way_back") return admittedNow(wire, await readmit(record, letter), hidden);
  return typeof again === "string" ? again : [again];
};

/**
 * Drops admitted records of erased subjects: a letter that no one could decode must not bring them
 * back.
 */
const admittedNow = (
  wire: Wire,
  messages: readonly OutputMessage[] | undefined,
  hidden: Hides | undefined,
): RetryTarget => {
  if (messages === undefined) return "no_way_back";
  const { eventsRaw } = topics;
  const isErased = messages.some(({ topic, value }) => {
    if (hidden === undefined || topic !== eventsRaw.name) return false;
    return hidden(wire.decode(eventsRaw, value, { topic, partition: -1, offset: -1 }), topic);
  });
  return isErased ? "erased" : messages;
};
