// Which rows of files are taken: the first import that brings a row has it, and a later one has a
// duplicate.
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../../infra/postgres/sql.ts";

/** The import that takes rows; `fence` says that no other process has it since. */
interface RowTaker {
  readonly import_id: string;
  readonly client_id: number;
  readonly fence: bigint;
}
export interface RowOfFile {
  readonly event_id: string;
  readonly line: number;
}

/**
 * new: first taken by this row, in any file of the client. under_way: another import has it and has
 * not counted it, so it may not be in the log yet, or ever.
 */
export type ClaimResult = "new" | "taken" | "under_way";

/**
 * What each row is: the same answer however often one import asks about a row of its own.
 * Undefined: the import is another's now, or has ended, and nothing is taken.
 */
export const claimRows = (
  pool: Pool,
  taken: RowTaker,
  rows: readonly RowOfFile[],
): Promise<readonly ClaimResult[] | undefined> =>
  transaction(
    pool,
    [taken.client_id],
    async (tx) => {
      // Until the commit no one ends the import: its end frees what was not counted.
      const { rowCount } = await tx.query(sql`select from imports
        where import_id = ${taken.import_id} and fence = ${taken.fence} and status = 'processing' for share`);
      if (rowCount !== 1) return undefined;
      const [ids, lines] = [rows.map(({ event_id }) => event_id), rows.map(({ line }) => line)];
      await tx.query(sql`
        insert into import_rows (client_id, event_id, import_id, line)
        select ${taken.client_id}, event_id, ${taken.import_id}, line
        from unnest(${ids}::uuid[], ${lines}::int[]) as row (event_id, line) on conflict do nothing`);
      const { rows: known } = await tx.query<RowOfFile & { is_own: boolean; is_counted: boolean }>(sql`
        select event_id, line, import_id = ${taken.import_id} as is_own,
          line < coalesce((checkpoint -> 'next' ->> 'line')::int, 0) as is_counted
        from import_rows join imports using (import_id)
        where import_rows.client_id = any (${[taken.client_id]}::int[]) and event_id = any (${ids}::uuid[])`);
      const found = new Map(known.map((row) => [row.event_id, row]));
      return rows.map(({ event_id, line }) => {
        const first = found.get(event_id);
        if (first?.is_own) return first.line === line ? "new" : "taken";
        return first?.is_counted ? "taken" : "under_way";
      });
    },
    { role: "tributary_edge" },
  );

/**
 * In the transaction that ends an import before its last row: what it took behind the rows that it
 * counted may never have reached the log, so another file may bring it. What did reach it is met
 * there by its id.
 */
export const freeUncounted = async (
  tx: PoolClient,
  { import_id, client_id }: Pick<RowTaker, "import_id" | "client_id">,
): Promise<void> => {
  await tx.query(sql`
    delete from import_rows where client_id = any (${[client_id]}::int[]) and import_id = ${import_id}
      and line >= coalesce((select (checkpoint -> 'next' ->> 'line')::int from imports
        where import_id = ${import_id}), 0)`);
};
