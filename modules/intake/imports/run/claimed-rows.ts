// Claims rows of files. The first import that brings a row owns it; for a later import the row is a
// duplicate, until the first one is undone.
import type { Pool, PoolClient } from "pg";
import { againEventId } from "../../../../domain/ids.ts";
import { sql, transaction } from "../../../../infra/postgres/sql.ts";

/** The import that claims rows. `fence` proves that no other process has it since. */
interface RowTaker {
  readonly import_id: string;
  readonly client_id: number;
  readonly fence: bigint;
}
export interface RowOfFile {
  readonly event_id: string;
  readonly line: number;
}
/** `row_id` is that of the row itself: its event has another one if undone imports brought it. */
interface ClaimedRow extends RowOfFile {
  readonly row_id?: string;
}

/**
 * The ids of rows that undone imports have brought, as they are now, by the rows' own ids. Absent:
 * no such import has, and its own id is that of its event.
 */
export const idsAgain = async (
  tx: PoolClient,
  clientId: number,
  rowIds: readonly string[],
): Promise<ReadonlyMap<string, string>> => {
  const { rows: undone } = await tx.query<{ event_id: string }>(sql`
    select event_id from import_rows
    where client_id = any (${[clientId]}::int[]) and event_id = any (${rowIds}::uuid[]) and is_undone`);
  if (undone.length === 0) return new Map();
  const ids = undone.map(({ event_id }) => event_id);
  const { rows: again } = await tx.query<{ row_id: string; times: number }>(sql`
    select row_id, count(*)::int as times from import_rows
    where client_id = any (${[clientId]}::int[]) and row_id = any (${ids}::uuid[]) and is_undone group by row_id`);
  const times = new Map(again.map((one) => [one.row_id, one.times]));
  return new Map(ids.map((id) => [id, againEventId(id, 1 + (times.get(id) ?? 0))]));
};

/** The same in a transaction of its own, for the importer. */
export const readIdsAgain = (pool: Pool, clientId: number, rowIds: readonly string[]) =>
  transaction(pool, [clientId], (tx) => idsAgain(tx, clientId, rowIds), { role: "tributary_upload" });

/**
 * Frees rows of an undone import: from now on the same row in another file is a new event. The row
 * stays, so that the undo can be repeated, and so that the next id of its row is known.
 */
export const freeUndone = (
  pool: Pool,
  { import_id, client_id }: Pick<RowTaker, "import_id" | "client_id">,
  eventIds: readonly string[],
): Promise<void> =>
  transaction(
    pool,
    [client_id],
    async (tx) => {
      await tx.query(sql`
        update import_rows set is_undone = true where client_id = any (${[client_id]}::int[])
          and import_id = ${import_id} and event_id = any (${eventIds}::uuid[]) and not is_undone`);
    },
    { role: "tributary_keeper" },
  );

/**
 * new: this row claims it first, among all files of the client. under_way: another import owns it
 * and has not counted it, so it may not be in the log yet, or ever.
 */
export type ClaimResult = "new" | "taken" | "under_way";

/**
 * Returns the result for each row; repeated calls of one import return the same. Undefined: another
 * process has the import now, or it has ended, and nothing is claimed.
 */
export const claimRows = (
  pool: Pool,
  taken: RowTaker,
  rows: readonly ClaimedRow[],
): Promise<readonly ClaimResult[] | undefined> =>
  transaction(
    pool,
    [taken.client_id],
    async (tx) => {
      // Locks the import until the commit, because its end frees uncounted rows.
      const { rowCount } = await tx.query(sql`select from imports
        where import_id = ${taken.import_id} and fence = ${taken.fence} and status = 'processing' for share`);
      if (rowCount !== 1) return undefined;
      const [ids, lines] = [rows.map(({ event_id }) => event_id), rows.map(({ line }) => line)];
      const own = rows.map(({ event_id, row_id = event_id }) => (row_id === event_id ? null : row_id));
      await tx.query(sql`
        insert into import_rows (client_id, event_id, import_id, line, row_id)
        select ${taken.client_id}, event_id, ${taken.import_id}, line, row_id
        from unnest(${ids}::uuid[], ${lines}::int[], ${own}::uuid[]) as row (event_id, line, row_id)
        on conflict do nothing`);
      const { rows: known } = await tx.query<RowOfFile & { is_own: boolean; is_counted: boolean }>(sql`
        select event_id, line, import_id = ${taken.import_id} as is_own,
          line < coalesce((checkpoint -> 'next' ->> 'line')::bigint, 0) as is_counted
        from import_rows join imports using (import_id)
        where import_rows.client_id = any (${[taken.client_id]}::int[]) and event_id = any (${ids}::uuid[])`);
      const found = new Map(known.map((row) => [row.event_id, row]));
      return rows.map(({ event_id, line }) => {
        const first = found.get(event_id);
        if (first?.is_own) return first.line === line ? "new" : "taken";
        return first?.is_counted ? "taken" : "under_way";
      });
    },
    { role: "tributary_upload" },
  );

/**
 * Runs in the transaction that ends an import before its last row. Rows that it claimed but did not
 * count may never have reached the log, so another file may bring them. A row that did reach the
 * log is recognised there by its id.
 */
export const freeUncounted = async (
  tx: PoolClient,
  { import_id, client_id }: Pick<RowTaker, "import_id" | "client_id">,
): Promise<void> => {
  await tx.query(sql`
    delete from import_rows where client_id = any (${[client_id]}::int[]) and import_id = ${import_id}
      and line >= coalesce((select (checkpoint -> 'next' ->> 'line')::bigint from imports
        where import_id = ${import_id}), 0)`);
};
