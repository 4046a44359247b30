// Reads imports for people, and the import that a use case changes.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import type { Mapping } from "./csv/csv-head.ts";
import type { ImportSource, ImportState } from "./import-state.ts";
import { shownUndo } from "./undo-result.ts";

export interface ImportFilter {
  readonly import_id?: string | undefined;
  readonly client_id?: number | undefined;
  readonly partner_id?: number | undefined;
  readonly status?: ImportState | undefined;
  readonly created?: { readonly from: UnixMs; readonly to: UnixMs } | undefined;
}

const inCurrency = sql`coalesce((select currency from clients c where c.client_id = i.client_id
  order by version desc limit 1), 'MXN')`;

/** Returns sums as stored; `withSums` turns them into amounts. */
export const importRows = ({ import_id, client_id, partner_id, status, created }: ImportFilter): RowsQuery => {
  const given: readonly (Sql | undefined)[] = [
    import_id === undefined ? undefined : sql`i.import_id = ${import_id}`,
    client_id === undefined ? undefined : sql`i.client_id = ${client_id}`,
    partner_id === undefined ? undefined : sql`i.partner_id = ${partner_id}`,
    status === undefined ? undefined : sql`i.status = ${status}`,
    created && sql`i.created_at >= ${new Date(created.from)} and i.created_at < ${new Date(created.to)}`,
  ];
  return {
    columns: {
      ...{ id: sql`i.import_id`, client_id: sql`i.client_id`, partner_id: sql`i.partner_id` },
      ...{ filename: sql`i.filename`, source: sql`i.source`, status: sql`i.status`, bytes: sql`i.bytes::float8` },
      ...{ total: sql`i.total::int`, accepted: sql`i.accepted::int` },
      ...{ duplicate: sql`i.duplicate::int`, rejected: sql`i.rejected::int` },
      read_bytes: sql`case when i.status in ('completed', 'completed_with_errors') then i.bytes::float8
        else coalesce((i.checkpoint -> 'next' ->> 'offset')::float8, 0) end`,
      blank_lines: sql`coalesce((i.checkpoint -> 'next' ->> 'blank')::float8, 0)`,
      ...{ file_revenue: sql`i.file_sums`, stored_revenue: sql`i.stored_sums`, currency: inCurrency },
      ...{ other_currencies: sql`null`, same_file_as: sql`i.same_file_as`, error: sql`i.error` },
      ...{ created_by: sql`i.created_by`, created_at: sql`i.created_at`, started_at: sql`i.started_at` },
      ...{ finished_at: sql`i.finished_at`, heartbeat_at: sql`i.heartbeat_at`, undone_at: sql`i.undone_at` },
      ...{ mapping: sql`i.mapping`, undone: sql`i.undone` },
      error_codes: sql`(select coalesce(jsonb_agg(jsonb_build_object('code', key, 'count', value::int)
        order by value::int desc, key), '[]') from jsonb_each_text(i.error_codes))`,
    },
    from: sql`imports i`,
    tenant: sql`i.client_id`,
    where: given.filter((part): part is Sql => part !== undefined),
    sorts: { created_at: { by: sql`i.created_at`, type: "timestamptz" } },
    id: { by: sql`i.import_id`, type: "text" },
  };
};

type ImportRow = Readonly<Record<string, any>>;
type Sums = Readonly<Record<string, string>>;

/** Sums in the client's currency, and separately in each other currency of the file. */
export const withSums = (row: ImportRow): ImportRow => {
  const {
    file_revenue: file,
    stored_revenue: stored,
    currency,
  } = row as {
    readonly file_revenue: Sums;
    readonly stored_revenue: Sums;
    readonly currency: string;
  };
  const sumsIn = (code: string) => ({
    file_revenue: toDecimal(BigInt(file[code] ?? 0), code),
    stored_revenue: toDecimal(BigInt(stored[code] ?? 0), code),
  });
  const others = Object.keys(file).filter((code) => code !== currency);
  return {
    ...row,
    ...(row.undone !== undefined && { undone: shownUndo(row.undone) }),
    ...sumsIn(currency),
    other_currencies: others.sort().map((code) => ({ currency: code, ...sumsIn(code) })),
  };
};

/** The fields of an import's row that a reader of its file needs. */
export interface FileOfImport {
  readonly import_id: string;
  readonly client_id: number;
  readonly partner_id: number;
  readonly source: ImportSource;
  readonly status: ImportState;
  readonly parts: number | null;
  readonly mapping: Mapping | null;
}

export const fileOfImport = async (
  tx: PoolClient,
  importId: string,
  clients: readonly number[],
  lock: "for update" | "" = "",
): Promise<FileOfImport | undefined> => {
  const { rows } = await tx.query<FileOfImport>(sql`
    select import_id, client_id, partner_id, source, status, parts, mapping
    from imports where import_id = ${importId} and client_id = any (${clients}::int[]) ${{ text: lock, values: [] }}`);
  return rows[0];
};

/** The states of an import that has not ended and can be cancelled. */
export const cancellable: readonly ImportState[] = ["pending_upload", "queued", "processing"];

/** Throws RefusalError: missing. */
export const importToChange = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  importId: string,
): Promise<FileOfImport> => {
  const file = await fileOfImport(tx, importId, scope.clients, "for update");
  if (file === undefined) throw missing();
  return file;
};

/**
 * Records in the audit who reads the rows, because they may hold personal data. Throws
 * RefusalError: missing.
 */
export const recordRead = async (
  { tx, scope, audit }: Work,
  importId: string,
  action: "import_errors.read" | "import_preview.read",
): Promise<FileOfImport> => {
  const file = await fileOfImport(tx, importId, scope.clients);
  if (file === undefined) throw missing();
  await audit({ action, client_id: file.client_id, entity: entityOfImport(importId) });
  return file;
};

/** The name of an import in the audit. */
export const entityOfImport = (importId: string): string => `import:${importId}`;
