// The index of dead letters in memory, with the same rules as the one in Postgres.
import { type Failure, indexFailures, type Letter, mayBeClaimed } from "../../modules/log/dead-letters/letter.ts";
import type { Attempt } from "../../modules/log/dead-letters/letter-index.ts";
import type { UnixMs } from "../../stream/flow.ts";

export const inMemoryLetters = (random: () => number = () => 0) => {
  const letters = new Map<string, Letter>();
  const indexedFailures = new Set<string>();
  const attempt = (sent: readonly Attempt[], change: (letter: Letter) => Partial<Letter>): number => {
    let changed = 0;
    for (const { letter_id, attempts } of sent) {
      const letter = letters.get(letter_id);
      if (letter?.state !== "retrying" || letter.attempts !== attempts) continue;
      letters.set(letter_id, { ...letter, ...change(letter) });
      changed += 1;
    }
    return changed;
  };
  return {
    all: () => [...letters.values()],
    failures: () => indexedFailures.size,
    index: async (failures: readonly Failure[]) => {
      const indexed = indexFailures({ letters: [...letters.values()], failures: indexedFailures }, failures, random);
      for (const letter of indexed.letters) letters.set(letter.letter_id, letter);
      for (const { failure } of indexed.failures) indexedFailures.add(failure.failure_id);
    },
    claim: async (most: number, now: UnixMs, leaseMs: number): Promise<readonly Letter[]> => {
      const due = [...letters.values()].filter((letter) => mayBeClaimed(letter, now)).slice(0, most);
      for (const letter of due)
        letters.set(letter.letter_id, {
          ...letter,
          state: "retrying",
          next_attempt_at: null,
          sent_at: null,
          lease_until: now + leaseMs,
        });
      return due.map(({ letter_id }) => letters.get(letter_id)!);
    },
    sent: async (sent: readonly Attempt[], now: UnixMs) => void attempt(sent, () => ({ sent_at: now })),
    underWay: async (): Promise<readonly Attempt[]> =>
      [...letters.values()].filter(({ state, sent_at }) => state === "retrying" && sent_at !== null),
    passed: async (sent: readonly Attempt[], now: UnixMs) =>
      attempt(sent, ({ sent_at }) =>
        sent_at === null ? {} : { state: "reprocessed", lease_until: null, closed_at: now },
      ),
    park: async (sent: readonly Attempt[], message: string) =>
      void attempt(sent, () => ({ state: "parked", lease_until: null, message })),
    discard: async (sent: readonly Attempt[], reason: string, now: UnixMs) =>
      void attempt(sent, () => ({
        state: "discarded",
        lease_until: null,
        closed_at: now,
        closed_by: "keeper",
        close_reason: reason,
      })),
    /** What a person does. */
    change: (letterId: string, change: Partial<Letter>) =>
      void letters.set(letterId, { ...letters.get(letterId)!, ...change }),
  };
};
