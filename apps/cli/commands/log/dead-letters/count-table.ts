// Letters counted by reason, as a table.
import type pg from "pg";
import { print, table } from "../../../../../infra/runtime/output.ts";
import { countLetters, type LetterFilter } from "../../../../../modules/log/dead-letters/letter-reads.ts";

export const time = (at: number | null): string | null =>
  at === null ? null : new Date(at).toISOString().slice(0, 19).replace("T", " ");

/** Prints the table and returns how many letters there are. */
export const countTable = async (pool: pg.Pool, filter: LetterFilter): Promise<number> => {
  const counts = await countLetters(pool, filter, null);
  if (counts.length > 0)
    print(
      table(
        ["kind", "state", "stage", "code", "letters", "oldest"],
        counts.map((one) => [one.kind, one.state, one.stage, one.code, one.count, time(one.oldest)]),
      ),
    );
  return counts.reduce((sum, { count }) => sum + count, 0);
};
