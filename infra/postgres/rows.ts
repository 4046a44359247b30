// Reads rows of which different readers may see different columns: the select names only the
// columns of the reader. Rows are read in pages behind a cursor, or all of them from one snapshot.
import type pg from "pg";
import type { GroupRole } from "./logins.ts";
import { named, type Sql, sql } from "./sql.ts";

/** Names of columns and the expressions behind them. */
export type Expressions = Readonly<Record<string, Sql>>;

/** An expression to sort by, never null, with the type that its text is cast back to. */
interface SortKey {
  readonly by: Sql;
  readonly type: "text" | "int" | "bigint" | "numeric" | "timestamptz" | "date" | "uuid";
}
export interface RowsQuery {
  readonly columns: Expressions;
  readonly from: Sql;
  /** The role for reading, if the application may not read the rows by itself. */
  readonly role?: GroupRole;
  /** The column with the client of a row; only rows of the clients in scope are read. */
  readonly tenant: Sql;
  readonly where?: readonly Sql[];
  readonly sorts: Readonly<Record<string, SortKey>>;
  /** Unique: the last key of every order. */
  readonly id: SortKey;
}
/** Sort key and id of the row after which a page begins, as texts. */
export type PageKey = readonly [key: string, id: string];
export interface RowsReading {
  /**
   * Names of columns. Names that `columns` does not have are left out, since they come from
   * elsewhere.
   */
  readonly names: readonly string[];
  /** A name of `sorts`, with `-` in front for descending order. */
  readonly sort: string;
  readonly clients: readonly number[];
}
type Row = Readonly<Record<string, any>>;

/** `expression as "name"` of these names, and of no other column. */
export const selecting = (columns: Expressions, names: readonly string[]): Sql =>
  listed(names.filter((name) => Object.hasOwn(columns, name)).map((name) => sql`${columns[name]} as ${named(name)}`));

const listed = (parts: readonly Sql[]): Sql =>
  parts.length === 0 ? sql`true` : parts.reduce((all, part) => sql`${all}, ${part}`);
const all = (conditions: readonly Sql[]): Sql =>
  conditions.reduce((before, condition) => sql`${before} and (${condition})`, sql`true`);
const cast = (value: string, type: string): Sql => sql`${value}::${{ text: type, values: [] }}`;

const statementOf = (
  query: RowsQuery,
  { names, sort, clients }: RowsReading,
  behind?: PageKey,
  limit?: number,
): Sql => {
  const isDescending = sort.startsWith("-");
  const { by, type } = query.sorts[isDescending ? sort.slice(1) : sort]!;
  const { by: id, type: idType } = query.id;
  const direction = { text: isDescending ? "desc" : "asc", values: [] };
  const mark = { text: isDescending ? "<" : ">", values: [] };
  const after =
    behind === undefined ? [] : [sql`(${by}, ${id}) ${mark} (${cast(behind[0], type)}, ${cast(behind[1], idType)})`];
  const where = all([sql`${query.tenant} = any (${clients}::int[])`, ...(query.where ?? []), ...after]);
  const end = limit === undefined ? { text: "", values: [] } : sql` limit ${limit}`;
  return sql`select ${selecting(query.columns, names)}, (${by})::text as "~key", (${id})::text as "~id"
    from ${query.from} where ${where} order by ${by} ${direction}, ${id} ${direction}${end}`;
};

const shown = ({ "~key": _, "~id": __, ...row }: Row): Row => row;

const asRole = async <T>(tx: pg.PoolClient, { role }: RowsQuery, work: () => Promise<T>): Promise<T> => {
  if (role === undefined) return work();
  await tx.query(`set local role ${role}`);
  const result = await work();
  await tx.query("set local role none");
  return result;
};

/** Returns at most `limit` rows, and where the next page begins if there are more. */
export const pageOfRows = async (
  tx: pg.PoolClient,
  query: RowsQuery,
  reading: RowsReading,
  { behind, limit }: { readonly behind?: PageKey | undefined; readonly limit: number },
): Promise<{ readonly rows: readonly Row[]; readonly next: PageKey | null }> => {
  // One row more than asked for shows whether there are more.
  const { rows } = await asRole(tx, query, () => tx.query<Row>(statementOf(query, reading, behind, limit + 1)));
  const last = rows.length > limit ? rows[limit - 1] : undefined;
  return {
    rows: rows.slice(0, limit).map(shown),
    next: last === undefined ? null : [last["~key"], last["~id"]],
  };
};

/** The number of rows of all pages together. */
export const countRows = async (tx: pg.PoolClient, query: RowsQuery, clients: readonly number[]): Promise<number> => {
  const where = all([sql`${query.tenant} = any (${clients}::int[])`, ...(query.where ?? [])]);
  const counted = sql`select count(*)::int as count from ${query.from} where ${where}`;
  return (await asRole(tx, query, () => tx.query<{ count: number }>(counted))).rows[0]!.count;
};

/**
 * Yields every row, read in portions by a cursor; the transaction decides which rows are visible.
 */
export async function* everyRow(
  tx: pg.PoolClient,
  query: RowsQuery,
  reading: RowsReading,
  size = 500,
): AsyncGenerator<readonly Row[]> {
  await asRole(tx, query, () => tx.query(sql`declare every_row no scroll cursor for ${statementOf(query, reading)}`));
  for (;;) {
    const { rows } = await tx.query<Row>(`fetch ${Math.trunc(size)} from every_row`);
    if (rows.length > 0) yield rows.map(shown);
    if (rows.length < size) return;
  }
}
