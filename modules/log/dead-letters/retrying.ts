// Sends due letters into the pipeline again: claim, produce the kept bytes under the same id, mark.
import { hit } from "#failpoint";
import type { Hides } from "../../../domain/personal/suppression.ts";
import { placeOf } from "../../../infra/kafka/kafka.ts";
import type { Position, UnixMs } from "../../../stream/flow.ts";
import type { InputMessage, OutputMessage, Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";
import { topics } from "../../../topics.ts";
import { reentryOf } from "./failure.ts";
import type { Letter } from "./letter.ts";
import type { Attempt } from "./letter-index.ts";

type Kept = Pick<InputMessage, "key" | "value" | "headers">;

/** What sending needs of the index; modules/log/dead-letters/letter-index.ts has it. */
export interface Claims {
  readonly claim: (most: number, now: UnixMs, leaseMs: number) => Promise<readonly Letter[]>;
  readonly sent: (letters: readonly Attempt[], now: UnixMs) => Promise<void>;
  readonly park: (letters: readonly Attempt[], message: string) => Promise<void>;
  readonly discard: (letters: readonly Attempt[], reason: string, now: UnixMs) => Promise<void>;
}
export interface RetryPorts {
  readonly claims: Claims;
  /** Kept records by `placeOf`; one that the log has no more is left out. */
  readonly pick: (places: readonly Position[]) => Promise<ReadonlyMap<string, Kept>>;
  readonly produce: Produce;
  readonly wire: Wire;
  /**
   * What becomes of something that an edge refused, tried once more: records, or its letter again.
   * Undefined for what no edge has kept.
   */
  readonly readmit: (kept: Kept, root: string) => Promise<readonly OutputMessage[] | undefined>;
  /** Who was erased; rejects while that is not known, and then nothing is sent. */
  readonly hides: () => Promise<Hides | undefined>;
  readonly clock: () => UnixMs;
}

type Reentry = readonly OutputMessage[] | "bytes_lost" | "no_way_back" | "erased";

/**
 * Sending takes seconds; a minute outlasts a broker that starts again, and is how long a letter of
 * a killed keeper waits.
 */
const LEASE_MS = 60_000;

/**
 * Sends at most `most` letters; answers how many were claimed. What one refused record left with
 * several readers is sent once. The order of effects:
 *  1 claim, with a lease -> dying here: the lease ends, and another one claims it
 * 2 produce the kept bytes, with the letter in a header -> dying here: claimed again and sent
 * again, the same id, one row  3 mark as sent -> it is confirmed (confirm-reprocessed.ts), by the
 * keeper that looks next
 */
export const sendDue = async (
  { claims, pick, produce, hides, clock, ...ports }: RetryPorts,
  most: number,
): Promise<number> => {
  const letters = await claims.claim(most, clock(), LEASE_MS);
  if (letters.length === 0) return 0;
  hit("dlq-claimed");
  const hidden = await hides();
  const kept = await pick(letters.map((letter) => letter.kept));
  const messages = new Map<string, Reentry>();
  const sent: Letter[] = [];
  const ends: Record<Exclude<Reentry, readonly OutputMessage[]>, Letter[]> = {
    bytes_lost: [],
    no_way_back: [],
    erased: [],
  };
  for (const { root, kept: place } of letters) {
    // What one letter of a root has lost another one may still have.
    if ((messages.get(root) ?? "bytes_lost") !== "bytes_lost") continue;
    const record = kept.get(placeOf(place));
    messages.set(root, record === undefined ? "bytes_lost" : await reentry(ports, record, root, hidden));
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
  return letters.length;
};

const reentry = async (
  { wire, readmit }: Pick<RetryPorts, "wire" | "readmit">,
  record: Kept,
  root: string,
  hidden: Hides | undefined,
): Promise<Reentry> => {
  const again = await reentryOf(wire, record, root, hidden);
  if (again === "no_way_back") return admittedNow(wire, await readmit(record, root), hidden);
  return typeof again === "string" ? again : [again];
};

/** A subject that was erased does not come back by way of a letter that no one could read. */
const admittedNow = (
  wire: Wire,
  messages: readonly OutputMessage[] | undefined,
  hidden: Hides | undefined,
): Reentry => {
  if (messages === undefined) return "no_way_back";
  const { eventsRaw } = topics;
  const isErased = messages.some(({ topic, value }) => {
    if (hidden === undefined || topic !== eventsRaw.name) return false;
    return hidden(wire.decode(eventsRaw, value, { topic, partition: -1, offset: -1 }), topic);
  });
  return isErased ? "erased" : messages;
};
