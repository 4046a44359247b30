// The rows of imports in Postgres. An upload adds a row, one process at a time works on it under a
// lease, and rows are counted together with the place where the next process continues.
import { randomUUID } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Head, Mapping } from "./csv/csv-head.ts";
import type { StoredFile } from "./import-file.ts";
import type { ImportSource, ImportState } from "./import-state.ts";
import { freeUncounted } from "./run/claimed-rows.ts";
import { followEnd } from "./run/follow-end.ts";

export interface NewImport {
  readonly client_id: number;
  readonly partner_id: number;
  readonly filename: string;
  readonly source: ImportSource;
  readonly created_by: string;
}

/** The place where the next process continues; null: at the head. */
export type Checkpoint = Head;
/**
 * An import that this process may work on. `fence` proves that no other process has taken it since.
 */
export interface TakenImport {
  readonly import_id: string;
  readonly client_id: number;
  readonly partner_id: number;
  readonly source: ImportSource;
  readonly mapping: Mapping | null;
  readonly parts: number;
  readonly checkpoint: Checkpoint | null;
  /**
   * The hash of the uncompressed file; null: it came in parts and has not been read completely yet.
   */
  readonly sha256: string | null;
  readonly fence: bigint;
}

/** Numbers of answered rows; sums are in minor units by currency. */
export interface RowCounts {
  readonly accepted: number;
  readonly duplicate: number;
  readonly rejected: number;
  readonly codes: ReadonlyMap<string, number>;
  readonly fileSums: ReadonlyMap<string, bigint>;
  readonly storedSums: ReadonlyMap<string, bigint>;
}

/** After this time without a heartbeat the process counts as gone (docs/import-csv.md). */
const LEASE = { text: "interval '15 minutes'", values: [] };
/** Longer than a sender needs for one piece of a file that has been cancelled. */
const LAST_PIECE = { text: "interval '10 minutes'", values: [] };

/** As the importer, which works off whatever waits. */
const within = <T>(pool: Pool, clients: readonly number[] | null, work: (tx: PoolClient) => Promise<T>): Promise<T> =>
  transaction(pool, clients, work, { role: "tributary_upload" });
/** As the ingest host, which takes whole files and works none off. */
const asTaker = <T>(pool: Pool, clients: readonly number[] | null, work: (tx: PoolClient) => Promise<T>): Promise<T> =>
  transaction(pool, clients, work, { role: "tributary_edge" });

/** The most open imports of a partner. */
const MOST_OPEN = 100;

export const hasTooManyOpen = async (tx: PoolClient, partnerId: number): Promise<boolean> => {
  const { rows } = await tx.query<{ open: number }>(sql`
    select count(*)::int as open from imports where partner_id = ${partnerId}
      and status in ('pending_upload', 'queued', 'processing')`);
  return rows[0]!.open >= MOST_OPEN;
};

/** Undefined: the partner has too many open imports. */
export const beginUpload = (pool: Pool, wanted: NewImport): Promise<string | undefined> =>
  asTaker(pool, [wanted.client_id], async (tx) => {
    if (await hasTooManyOpen(tx, wanted.partner_id)) return undefined;
    const importId = `imp_${randomUUID()}`;
    await tx.query(sql`
      insert into imports (import_id, client_id, partner_id, filename, source, status, created_by)
      values (${importId}, ${wanted.client_id}, ${wanted.partner_id}, ${wanted.filename}, ${wanted.source},
        'pending_upload', ${wanted.created_by})`);
    return importId;
  });

/**
 * Marks the file as completely stored. Returns an earlier import with the same bytes if there is
 * one; undefined if the upload has ended meanwhile.
 */
export const queueUpload = (
  pool: Pool,
  importId: string,
  clientId: number,
  { bytes, parts, sha256 }: StoredFile,
): Promise<string | null | undefined> =>
  asTaker(pool, [clientId], async (tx) => {
    const { rows } = await tx.query<{ same_file_as: string | null }>(sql`
      update imports set status = 'queued', bytes = ${bytes}::bigint, parts = ${parts}, sha256 = ${sha256},
        same_file_as = ${sameFile(clientId, importId, sha256)}
      where import_id = ${importId} and status = 'pending_upload' returning same_file_as`);
    return rows[0]?.same_file_as;
  });

/** Ends an upload that failed. */
export const endUpload = (pool: Pool, importId: string, error: string): Promise<void> =>
  asTaker(pool, null, async (tx) => {
    await tx.query(sql`update imports set status = 'failed', finished_at = clock_timestamp(), error = ${error}
      where import_id = ${importId} and status = 'pending_upload'`);
  });

/** Takes the oldest import that is waiting or whose process is gone. Undefined if there is none. */
export const takeImport = (pool: Pool, owner: string): Promise<TakenImport | undefined> =>
  within(pool, null, async (tx) => {
    const { rows } = await tx.query<TakenImport>(sql`
      update imports set status = 'processing', fence = fence + 1, leased_by = ${owner},
        started_at = coalesce(started_at, clock_timestamp()), heartbeat_at = clock_timestamp(),
        lease_until = clock_timestamp() + ${LEASE}
      where import_id = (
        select import_id from imports
        where status = 'queued' or (status = 'processing' and lease_until < clock_timestamp())
        order by created_at limit 1 for update skip locked)
      returning import_id, client_id, partner_id, source, mapping, parts, checkpoint, sha256, fence`);
    return rows[0];
  });

/** Returns false if another process has taken the import over, or someone has ended it. */
const change = (pool: Pool, { import_id, fence }: TakenImport, set: Sql): Promise<boolean> =>
  within(pool, null, async (tx) => {
    const { rowCount } = await tx.query(
      sql`update imports set ${set} where import_id = ${import_id} and fence = ${fence} and status = 'processing'`,
    );
    return rowCount === 1;
  });

/** Extends the lease. Returns false if another process has the import now. */
export const beat = (pool: Pool, taken: TakenImport): Promise<boolean> =>
  change(pool, taken, sql`heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + ${LEASE}`);

/** Gives an import back that cannot be done now; the next process that looks takes it. */
export const giveBack = (pool: Pool, taken: TakenImport): Promise<boolean> =>
  change(pool, taken, sql`status = 'queued', lease_until = null, leased_by = null`);

export const failImport = (pool: Pool, taken: TakenImport, error: string): Promise<boolean> =>
  within(pool, [taken.client_id], async (tx) => {
    const { rowCount } = await tx.query(sql`
      update imports set status = 'failed', lease_until = null, finished_at = clock_timestamp(), error = ${error}
      where import_id = ${taken.import_id} and fence = ${taken.fence} and status = 'processing'`);
    if (rowCount !== 1) return false;
    await freeUncounted(tx, taken);
    await followEnd(tx, taken.import_id);
    return true;
  });

/** `goes on` means that rows are left. */
export type ImportStanding = "goes on" | "ended" | "lost";

/**
 * Counts rows and moves the place behind them, in one transaction. `isEnd`: they were the last
 * rows. `checkpoint` is null before the head was read. Ends an import whose cancelling was
 * requested.
 */
export const countRows = (
  pool: Pool,
  taken: TakenImport,
  {
    counted,
    checkpoint,
    isEnd,
  }: { readonly counted: RowCounts; readonly checkpoint: Checkpoint | null; readonly isEnd: boolean },
): Promise<ImportStanding> =>
  within(pool, [taken.client_id], async (tx) => {
    const rows = counted.accepted + counted.duplicate + counted.rejected;
    const end = sql`case when cancel_requested_at is not null and not ${isEnd} then 'cancelled'
      when not ${isEnd} then status when rejected + ${counted.rejected}::bigint > 0 then 'completed_with_errors'
      else 'completed' end`;
    const { rows: found } = await tx.query<{ status: ImportState }>(sql`
      update imports set status = ${end},
        checkpoint = coalesce(${checkpoint === null ? null : JSON.stringify(checkpoint)}::jsonb, checkpoint),
        total = total + ${rows}::bigint, accepted = accepted + ${counted.accepted}::bigint,
        duplicate = duplicate + ${counted.duplicate}::bigint, rejected = rejected + ${counted.rejected}::bigint,
        file_sums = ${added(sql`file_sums`, counted.fileSums)},
        stored_sums = ${added(sql`stored_sums`, counted.storedSums)},
        error_codes = ${added(sql`error_codes`, counted.codes)}, heartbeat_at = clock_timestamp(),
        lease_until = case when ${isEnd} or cancel_requested_at is not null then null
          else clock_timestamp() + ${LEASE} end,
        finished_at = case when ${isEnd} or cancel_requested_at is not null then clock_timestamp() end
      where import_id = ${taken.import_id} and fence = ${taken.fence} and status = 'processing' returning status`);
    const status = found[0]?.status;
    if (status === "cancelled") await freeUncounted(tx, taken);
    if (status !== undefined && status !== "processing") await followEnd(tx, taken.import_id);
    return status === undefined ? "lost" : status === "processing" ? "goes on" : "ended";
  });

const noRows: RowCounts = {
  ...{ accepted: 0, duplicate: 0, rejected: 0 },
  ...{ codes: new Map(), fileSums: new Map(), storedSums: new Map() },
};
/** For work before the first row. Ends an import whose cancelling was requested. */
export const goesOn = (pool: Pool, taken: TakenImport): Promise<ImportStanding> =>
  countRows(pool, taken, { counted: noRows, checkpoint: null, isEnd: false });

/** `{key: number as text}` with these numbers added. */
const added = (column: Sql, more: ReadonlyMap<string, bigint | number>): Sql => {
  const entries = Object.fromEntries([...more].map(([key, value]) => [key, String(value)]));
  return sql`(select coalesce(jsonb_object_agg(key, sum::text), '{}') from (
    select key, sum(value::numeric) as sum from (select * from jsonb_each_text(${column})
      union all select * from jsonb_each_text(${JSON.stringify(entries)}::jsonb)) all_of group by key) summed)`;
};

const sameFile = (clientId: number, importId: string, sha256: string): Sql => sql`
  (select import_id from imports before where before.client_id = ${clientId} and before.sha256 = ${sha256}
    and before.import_id <> ${importId} order by created_at desc limit 1)`;

/**
 * Stores the hash of a file that came in parts. Returns the hash that its sender named; null: none.
 */
export const noteHash = (pool: Pool, taken: TakenImport, sha256: string): Promise<string | null> =>
  within(pool, [taken.client_id], async (tx) => {
    const { import_id, client_id, fence } = taken;
    const { rows } = await tx.query<{ sha256: string | null }>(sql`
      select sha256 from uploads where import_id = ${import_id}`);
    await tx.query(sql`
      update imports set sha256 = ${sha256}, same_file_as = ${sameFile(client_id, import_id, sha256)}
      where import_id = ${import_id} and fence = ${fence} and status = 'processing'`);
    return rows[0]?.sha256 ?? null;
  });

/** Whether the file of an import is still expected. */
export const isPending = (pool: Pool, importId: string): Promise<boolean> =>
  asTaker(pool, null, async (tx) => {
    const { rowCount } = await tx.query(sql`
      select from imports where import_id = ${importId} and status = 'pending_upload'`);
    return rowCount === 1;
  });

const ENDED = { file: sql`file_removed_at`, errors: sql`errors_removed_at` } as const;

/** Some imports that ended at least this many days ago and still have recorded objects. */
export const endedImports = (pool: Pool, what: keyof typeof ENDED, days: number): Promise<readonly string[]> =>
  within(pool, null, async (tx) => {
    const { rows } = await tx.query<{ import_id: string }>(sql`
      select import_id from imports where ${ENDED[what]} is null
        and finished_at <= clock_timestamp() - ${days}::int * interval '1 day' order by finished_at limit 20`);
    return rows.map(({ import_id }) => import_id);
  });

/**
 * Records that the objects were removed. While a sender may still be storing a piece, nothing is
 * recorded, so that the objects are looked for again.
 */
export const noteRemoved = (pool: Pool, importId: string, what: keyof typeof ENDED): Promise<void> =>
  within(pool, null, async (tx) => {
    await tx.query(sql`update imports set ${ENDED[what]} = clock_timestamp() where import_id = ${importId}
      and (source = 'put' and parts is not null or finished_at < clock_timestamp() - ${LAST_PIECE})`);
  });

/** Ends uploads that were not completed within 24 hours. */
export const endAbandoned = async (pool: Pool): Promise<void> => {
  const { rows } = await within(pool, null, (tx) =>
    tx.query<{ import_id: string; client_id: number }>(sql`
      select import_id, client_id from imports
      where status = 'pending_upload' and created_at < clock_timestamp() - interval '24 hours' limit ${MOST_OPEN}`),
  );
  for (const { import_id, client_id } of rows)
    await within(pool, [client_id], async (tx) => {
      const { rowCount } = await tx.query(sql`
        update imports set status = 'failed', finished_at = clock_timestamp(),
          error = 'the upload was not completed, and its import not begun, within 24 hours'
        where import_id = ${import_id} and status = 'pending_upload'`);
      if (rowCount === 1) await followEnd(tx, import_id);
    });
};
