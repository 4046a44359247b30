// The one way to read tenants' rows from ClickHouse: a query that cannot be built without naming
// its clients (law T5).
import type { Clickhouse } from "./client.ts";

/** The clients whose rows a query may see. Only `scopeOf` makes one. */
export interface ClientScope {
  readonly clients: readonly number[];
}
const scopes = new WeakSet<object>();

/**
 * Throws RangeError unless it gets at least one client, each a positive whole number: no scope
 * means "all".
 */
export const scopeOf = (...clients: readonly number[]): ClientScope => {
  if (clients.length === 0) throw new RangeError("a query needs at least one client");
  for (const id of clients)
    if (!Number.isSafeInteger(id) || id < 1 || id > 0xffff_ffff) throw new RangeError(`not a client id: ${id}`);
  const scope = Object.freeze({ clients: Object.freeze([...clients]) });
  scopes.add(scope);
  return scope;
};

/** An expression, and how its JSON value is read. */
export interface Column<T> {
  readonly expression: string;
  readonly read: (value: any) => T;
}
export const text = (expression: string): Column<string> => ({ expression: `toString(${expression})`, read: String });
export const count = (expression: string): Column<number> => ({ expression, read: Number });
export const flag = (expression: string): Column<boolean> => ({
  expression,
  read: (value) => value === true || value === 1,
});
export const texts = (expression: string): Column<readonly string[]> => ({
  expression,
  read: (value: readonly unknown[]) => value.map(String),
});
export const minor = (expression: string): Column<bigint> => ({ expression, read: BigInt });
export const unixMs = (expression: string): Column<number> => ({
  expression: `toUnixTimestamp64Milli(${expression})`,
  read: Number,
});
export const optional = <T>({ expression, read }: Column<T>): Column<T | null> => ({
  expression,
  read: (value) => (value === null ? null : read(value)),
});

/** Keeps only the requested columns; the others are not in the statement. */
export const only = <Columns extends Readonly<Record<string, Column<unknown>>>>(
  columns: Columns,
  names: readonly string[],
): Readonly<Record<string, Columns[keyof Columns]>> =>
  Object.fromEntries(Object.entries(columns).filter(([name]) => names.includes(name))) as Record<
    string,
    Columns[keyof Columns]
  >;

type Bindable = string | number | readonly string[] | readonly number[];
/** A condition with its values bound by name; made by `cond`. */
export interface Condition {
  readonly expression: string;
  readonly values: readonly { readonly type: string; readonly value: Bindable }[];
}
/** A value of a condition with its ClickHouse type. */
export const bind = (type: string, value: Bindable) => ({ type, value });
/** cond`event_id = ${bind("UUID", id)}` */
export const cond = (
  strings: TemplateStringsArray,
  ...values: readonly { readonly type: string; readonly value: Bindable }[]
): Condition => ({
  expression: strings.join("\0"),
  values,
});

export interface Select<Columns extends Readonly<Record<string, Column<unknown>>>> {
  /**
   * `events_current` holds what counts, `event_versions` every version and copy, both as far as
   * each device allows it today. `rollups` and `rollup_dimensions` are counts of `events_current`,
   * `receipts` say which request first brought an event. `consents` has the latest choice of each
   * device. `claim_positions`, `claim_receipts` and `device_events` say what a reprocess reads.
   * `events_decided` and `events` are beneath consent, for what credit is decided from
   * (tests/topology/consent.test.ts lists who reads them).
   */
  readonly from:
    | "events_current"
    | "event_versions"
    | "events_decided"
    | "events"
    | "rollups"
    | "rollup_dimensions"
    | "receipts"
    | "consents"
    | "claim_positions"
    | "claim_receipts"
    | "device_events";
  readonly columns: Columns;
  readonly where?: readonly Condition[];
  readonly groupBy?: readonly (keyof Columns & string)[];
  /** Expressions over columns of the table or of the query, each with an optional direction. */
  readonly orderBy?: readonly string[];
  /** At most this many rows of each group of equal values, the first ones of the order. */
  readonly limitBy?: { readonly most: number; readonly names: readonly (keyof Columns & string)[] };
  readonly limit?: number;
}
export type RowOf<Columns extends Readonly<Record<string, Column<unknown>>>> = {
  readonly [Name in keyof Columns]: Columns[Name] extends Column<infer T> ? T : never;
};
export interface Query {
  readonly text: string;
  readonly params: Readonly<Record<string, Bindable>>;
}

/** Tables whose rows only count in their newest state. */
const summed: ReadonlySet<string> = new Set(["rollups", "rollup_dimensions", "receipts"]);

// A sub-query would see rows of other clients, and a comment could hide the scope.
const FORBIDDEN = /\b(?:select|union|from|join)\b|;|--|\/\*|#/i;
const plain = (expression: string): string => {
  if (FORBIDDEN.test(expression))
    throw new Error(`only expressions over the table's own columns are taken: ${expression}`);
  let depth = 0;
  for (const [mark] of expression.matchAll(/[()]/g)) {
    depth += mark === "(" ? 1 : -1;
    if (depth < 0) break;
  }
  if (depth !== 0) throw new Error(`the brackets do not match: ${expression}`);
  return expression;
};

/**
 * Builds a query on one table. The scope comes first, on the column itself and in brackets of its
 * own, so that neither a condition nor a listed name can widen it. Expressions are written in code,
 * values are bound. Throws on a scope that `scopeOf` did not make, on sub-queries and on unmatched
 * brackets.
 */
export const select = <Columns extends Readonly<Record<string, Column<unknown>>>>(
  scope: ClientScope,
  query: Select<Columns>,
): Query => {
  if (typeof scope !== "object" || scope === null || !scopes.has(scope))
    throw new Error("a query without a client scope is not built");
  const params: Record<string, Bindable> = { scope: scope.clients };
  const conditions = (query.where ?? []).map(({ expression, values }) => {
    const parts = plain(expression).split("\0");
    return parts
      .map((part, n) => {
        const value = values[n];
        if (value === undefined) return part;
        const name = `p${Object.keys(params).length}`;
        params[name] = value.value;
        return `${part}{${name}:${value.type}}`;
      })
      .join("");
  });
  const listed = Object.entries(query.columns).map(([name, { expression }]) => `${plain(expression)} as \`${name}\``);
  const lines = [
    `select ${listed.join(", ")}`,
    `from ${query.from}${summed.has(query.from) ? " final" : ""}`,
    `where (${query.from}.client_id in {scope:Array(UInt32)})` +
      conditions.map((condition) => ` and (${condition})`).join(""),
  ];
  if (query.groupBy !== undefined) lines.push(`group by ${query.groupBy.map((name) => `\`${name}\``).join(", ")}`);
  if (query.orderBy !== undefined) lines.push(`order by ${query.orderBy.map(plain).join(", ")}`);
  if (query.limitBy !== undefined)
    lines.push(
      `limit ${Math.trunc(query.limitBy.most)} by ${query.limitBy.names.map((name) => `\`${name}\``).join(", ")}`,
    );
  if (query.limit !== undefined) lines.push(`limit ${Math.trunc(query.limit)}`);
  // Without this setting, a name in a condition would mean the listed expression of that name and
  // not the column. The key of each table contains its month, so no row has another version in
  // another partition.
  lines.push("settings prefer_column_name_to_alias = 1, do_not_merge_across_partitions_select_final = 1");
  return { text: lines.join("\n"), params };
};

/** Builds and runs a query. Throws the server's error with its numeric `code`. */
export const readRows = async <Columns extends Readonly<Record<string, Column<unknown>>>>(
  clickhouse: Clickhouse,
  scope: ClientScope,
  query: Select<Columns>,
): Promise<readonly RowOf<Columns>[]> => {
  const { text, params } = select(scope, query);
  const result = await clickhouse.query({ query: text, query_params: params, format: "JSONCompactEachRow" });
  const readers = Object.entries(query.columns);
  return (await result.json<readonly unknown[]>()).map(
    (values) => Object.fromEntries(readers.map(([name, { read }], n) => [name, read(values[n])])) as RowOf<Columns>,
  );
};
