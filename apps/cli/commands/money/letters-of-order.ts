// Finds the dead letters of an order of which nothing is stored. The index knows the orders of
// letters; of those of before it knows events alone, so their records are read.
import type pg from "pg";
import { spellingsOf } from "../../../../domain/ids.ts";
import type { Letter } from "../../../../modules/log/dead-letters/letter.ts";
import type { LetterAbout } from "../../../../modules/money/explain/letters-about.ts";

/** Each is read by its place in the log. Who has more open letters begins with `dlq list`. */
const MOST_READ = 200;
const OPEN = ["waiting", "retrying", "parked"] as const;

const shown = (letter: Letter, event_id = letter.event_id ?? ""): LetterAbout => {
  const { letter_id, client_id, state, stage, code, first_failed_at } = letter;
  return { letter_id, client_id: client_id!, event_id, state, stage, code, first_failed_at };
};

/** The event in a record, which some stages wrap; {} for unreadable bytes. */
const eventIn = (record: any): { readonly order_id?: string | null; readonly event_id?: string } => {
  const data = record?.data;
  return data?.attributed?.event ?? data?.event ?? data ?? {};
};

/**
 * The open letters of the order at these clients, at most 200. If the index knows none, those of
 * the newest open letters whose record names the order. `isWhole` is
 * false when there are older ones. Throws when the log or the registry does not answer.
 */
export const lettersOfOrder = async (
  pool: pg.Pool,
  clientIds: readonly number[],
  orderId: string,
): Promise<{ readonly letters: readonly LetterAbout[]; readonly isWhole: boolean }> => {
  const { listLetters } = await import("../../../../modules/log/dead-letters/letter-reads.ts");
  const spellings = spellingsOf(orderId);
  const known = await listLetters(pool, { states: OPEN, order_ids: spellings }, { scope: clientIds, limit: MOST_READ });
  if (known.length > 0) return { letters: known.map((letter) => shown(letter)), isWhole: known.length < MOST_READ };
  const open = await listLetters(pool, { states: OPEN }, { scope: clientIds, limit: MOST_READ });
  const isWhole = open.length < MOST_READ;
  if (open.length === 0) return { letters: [], isWhole };
  const [{ kafkaOf }, { ofContents, openLetterWire }] = await Promise.all([
    import("../../connections.ts"),
    import("../log/dead-letters/contents.ts"),
  ]);
  const { contentsOf } = await ofContents();
  const contents = await contentsOf({ kafka: kafkaOf(), wire: await openLetterWire() }, open);
  const letters = open.flatMap((letter, n) => {
    const { order_id, event_id } = eventIn(contents[n]!.record);
    return typeof order_id === "string" && spellings.includes(order_id) ? [shown(letter, event_id)] : [];
  });
  return { letters, isWhole };
};
