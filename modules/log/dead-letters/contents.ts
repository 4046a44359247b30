// Letters together with the records they keep, formatted for people and for files.
import type { Pool } from "pg";
import type { Kafka } from "../../../infra/kafka/kafka.ts";
import { placeOf } from "../../../infra/kafka/kafka.ts";
import type { Wire } from "../../../stream/wire.ts";
import { shownOf } from "./failure.ts";
import type { Letter } from "./letter.ts";
import { failuresOf, type LetterFilter, listLetters } from "./letter-reads.ts";

export interface ContentPorts {
  readonly kafka: Pick<Kafka, "pick">;
  /** Opened for every topic that letters come from. */
  readonly wire: Wire;
}
const PAGE = 500;

/** Formats positions and times as text. */
export const shownLetter = (letter: Letter) => ({
  ...letter,
  source: placeOf(letter.source),
  kept: placeOf(letter.kept),
  ...Object.fromEntries(
    (["first_failed_at", "last_failed_at", "next_attempt_at", "lease_until", "sent_at", "closed_at"] as const).map(
      (name) => [name, letter[name] === null ? null : new Date(letter[name]).toISOString()],
    ),
  ),
});

export const contentsOf = async ({ kafka, wire }: ContentPorts, letters: readonly Letter[]) => {
  const kept = await kafka.pick(letters.map((letter) => letter.kept));
  return Promise.all(
    letters.map(async (letter) => {
      const record = kept.get(placeOf(letter.kept));
      if (record === undefined)
        return { ...shownLetter(letter), record: null, hex: null, bytes: null, key: null, headers: {} };
      const headers = Object.fromEntries(Object.entries(record.headers).map(([name, value]) => [name, String(value)]));
      return { ...shownLetter(letter), ...(await shownOf(wire, record)), key: record.key?.toString() ?? null, headers };
    }),
  );
};

/** Every failure of a letter, oldest first. */
export const failuresShown = async (pool: Pool, letterId: string) =>
  (await failuresOf(pool, letterId)).map((one) => ({ ...one, failed_at: new Date(one.failed_at).toISOString() }));

/** Yields letters page by page, so that any number of them fits into memory. */
export async function* eachWithContents(pool: Pool, ports: ContentPorts, filter: LetterFilter) {
  for (let after: Letter | undefined; ; ) {
    const letters = await listLetters(pool, filter, { scope: null, limit: PAGE, ...(after && { after }) });
    yield await contentsOf(ports, letters);
    after = letters.at(-1);
    if (letters.length < PAGE) return;
  }
}
