// The kinds of reference data that an operator reads and saves, and their newest records.
import type { PoolClient } from "pg";
import { named, type Sql, sql } from "../../../infra/postgres/sql.ts";
import { type EntityName, entities } from "./entities.ts";
import type { Columns } from "./problem.ts";

export type Kind = EntityName | "segments";
export const kinds: readonly Kind[] = ["clients", "segments", "partners", "campaigns", "links", "contracts", "rules"];
export const isKind = (text: string): text is Kind => (kinds as readonly string[]).includes(text);

/** A record with the field names of the platform API, and its version. */
export interface KnownRecord {
  /** The id, or `<client id>:<code>` for a segment. */
  readonly key: string;
  readonly version: number;
  /** The clients to which it belongs. */
  readonly clients: readonly number[];
  readonly isArchived: boolean;
  /** The fields without id and version. */
  readonly record: Columns;
}

/** The field with the id; for a segment its code. */
export const idFieldOf = (kind: Kind): string => (kind === "segments" ? "code" : entities[kind].id);
const tableOf = (kind: Kind): string => (kind === "segments" ? "segments" : entities[kind].table);
const keyColumns = (kind: Kind): Sql => (kind === "segments" ? sql`client_id, code` : named(idFieldOf(kind)));

const BOOKKEEPING = new Set(["version", "change_id", "valid_from"]);

const recordOf = (kind: Kind, row: Columns): Columns => {
  const own = Object.fromEntries(Object.entries(row).filter(([name]) => !BOOKKEEPING.has(name)));
  if (kind === "segments") return own;
  const { [idFieldOf(kind)]: _, ...columns } = own;
  return entities[kind].toRecord(columns);
};

const clientsOf = (kind: Kind, row: Columns): readonly number[] =>
  kind === "partners" ? row.client_ids : [row.client_id];

const isArchived = (kind: Kind, row: Columns): boolean =>
  kind === "segments" ? row.active === false : row.status === "archived" || row.archived === true;

/**
 * The newest version of each record of a kind, sorted by id; `keys` selects some of them. It reads
 * all clients, so it needs the role tributary_reference.
 */
export const newestRecords = async (
  tx: PoolClient,
  kind: Kind,
  keys?: readonly string[],
): Promise<readonly KnownRecord[]> => {
  const key = kind === "segments" ? sql`client_id || ':' || code` : sql`${named(idFieldOf(kind))}::text`;
  const which = keys === undefined ? sql`true` : sql`${key} = any (${keys}::text[])`;
  await tx.query("set local role tributary_reference");
  const { rows } = await tx.query<{ key: string; row: Columns }>(sql`
    select distinct on (${keyColumns(kind)}) ${key} as key, to_jsonb(t) as row
    from ${named(tableOf(kind))} t where ${which} order by ${keyColumns(kind)}, version desc`);
  await tx.query("set local role none");
  return rows.map(({ key: own, row }) => ({
    key: own,
    version: row.version,
    clients: clientsOf(kind, row),
    isArchived: isArchived(kind, row),
    record: recordOf(kind, row),
  }));
};
