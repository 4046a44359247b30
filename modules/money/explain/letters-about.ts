// Finds the dead letters of events: what a reader refused of them, and has not taken since.
import type { Pool } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { EventName } from "../orders/event-names.ts";

export interface LetterAbout {
  readonly letter_id: string;
  readonly client_id: number;
  readonly event_id: string;
  /** waiting, retrying, parked or discarded; what came through is no letter any more. */
  readonly state: string;
  readonly stage: string;
  readonly code: string;
  readonly first_failed_at: UnixMs;
}

/** An order with more lost lines has one cause, which these show. */
const MOST_LETTERS = 50;

/** Oldest first. */
export const lettersAbout = (pool: Pool, events: readonly EventName[]): Promise<readonly LetterAbout[]> => {
  const clientIds = [...new Set(events.map(({ client_id }) => client_id))];
  return transaction(
    pool,
    clientIds,
    async (tx) => {
      const { rows } = await tx.query<LetterAbout>(sql`
        select letter_id, client_id, event_id, state, stage, code, first_failed_at from dead_letters
        where state <> 'reprocessed' and (client_id, event_id) in (
          select * from unnest(${events.map(({ client_id }) => client_id)}::int[],
            ${events.map(({ event_id }) => event_id)}::text[]))
        order by first_failed_at, letter_id limit ${MOST_LETTERS}`);
      return rows;
    },
    { isReadOnly: true },
  );
};
