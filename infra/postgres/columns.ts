// The columns of a Postgres table, declared once: the row that a statement gets, the row that a
// select returns, and the parts of statements that list columns.
import type { UnixMs } from "../../stream/flow.ts";

/** `Written` is a value that a statement gets, `Read` the same value as pg returns it. */
export interface ColumnType<Written, Read = Written> {
  /** The type of the given field. */
  readonly given: string;
  /** The expression that stores the field of this name. */
  readonly stored: (name: string) => string;
  /** Only for the compiler. */
  readonly values?: { readonly written: Written; readonly read: Read };
}
const plain = <Written, Read = Written>(given: string): ColumnType<Written, Read> => ({
  given,
  stored: (name) => name,
});

export const int = plain<number>("int");
/** 64 bits, written as digits because a number would be rounded. */
export const bigint = plain<string, bigint>("bigint");
export const text = plain<string>("text");
/** A text that is one of a few values. */
export const oneOf = <Value extends string>(): ColumnType<Value> => plain<Value>("text");
export const uuid = plain<string>("uuid");
export const bool = plain<boolean>("boolean");
export const time: ColumnType<UnixMs> = { given: "bigint", stored: (name) => `to_timestamp(${name} / 1000.0)` };
/** Written as JSON text. */
export const json: ColumnType<string, unknown> = { given: "text", stored: (name) => `${name}::jsonb` };
/** Written as hex digits. */
export const bytes: ColumnType<string, Buffer> = { given: "text", stored: (name) => `decode(${name}, 'hex')` };
export const nullable = <Written, Read>(type: ColumnType<Written, Read>): ColumnType<Written | null, Read | null> =>
  type;

/** A column whose value is not a given field of the same name. */
export const computed = <Written, Read>(
  type: ColumnType<Written, Read>,
  expression: string,
): ColumnType<Written, Read> => ({ ...type, stored: () => expression });

export type Columns = Readonly<Record<string, ColumnType<any, any>>>;
/** The row that a statement gets. */
export type WrittenRow<Of extends Columns> = {
  readonly [Name in keyof Of]: Of[Name] extends ColumnType<infer Written, any> ? Written : never;
};
/** The row that a select returns. */
export type StoredRow<Of extends Columns> = {
  readonly [Name in keyof Of]: Of[Name] extends ColumnType<any, infer Read> ? Read : never;
};

export interface DeclaredTable {
  readonly name: string;
  readonly key: readonly string[];
  readonly columns: Columns;
}

/** Picks some columns; a statement that needs only these names only these. */
export const pick = <Of extends Columns, Name extends keyof Of & string>(
  columns: Of,
  ...names: readonly Name[]
): Pick<Of, Name> => Object.fromEntries(names.map((name) => [name, columns[name]])) as unknown as Pick<Of, Name>;

export const listOf = (columns: Columns): string => Object.keys(columns).join(", ");

/**
 * The rows of `$1`, a JSON array, as a table named `given`. For rare statements: reading JSON costs
 * the server three times as much as `givenTexts`.
 */
export const givenRows = (columns: Columns): string =>
  `json_to_recordset($1::json) as given (${Object.entries(columns)
    .map(([name, type]) => `${name} ${type.given}`)
    .join(", ")})`;

/**
 * The rows of `$1`, `$2` and so on, which hold the texts of one column each, as a table named
 * `given`. A text that is no value of its type is refused as in JSON.
 */
export const givenTexts = (columns: Columns): string => {
  const names = Object.keys(columns);
  const values = Object.entries(columns).map(([name, { given }]) =>
    given === "text" ? name : `${name}::${given} as ${name}`,
  );
  const arrays = names.map((_, n) => `$${n + 1}::text[]`);
  return `(select ${values.join(", ")} from unnest(${arrays.join(", ")}) as texts (${names.join(", ")})) as given`;
};

/**
 * Joins each given row with the stored row of its key, as `kept`. Each key is looked up separately:
 * for a list of keys the planner would read all rows of a client.
 */
export const eachWithKept = (table: string, ...key: readonly string[]): string => `cross join lateral (
  select * from ${table} as row
  where ${key.map((name) => `row.${name} = given.${name}`).join(" and ")} limit 1) as kept`;

/** The values of the columns, in the order of `listOf`. */
export const storedFrom = (columns: Columns): string =>
  Object.entries(columns)
    .map(([name, type]) => type.stored(name))
    .join(", ");

/** On a conflict, sets all columns except these to the inserted values. */
export const replacedBut = (columns: Columns, ...kept: readonly string[]): string =>
  Object.keys(columns)
    .filter((name) => !kept.includes(name))
    .map((name) => `${name} = excluded.${name}`)
    .join(", ");

/**
 * Keeps the highest `version` of each key. Keys are sorted, so that two writers wait for each other
 * and never deadlock; of one key only the newest version is touched.
 */
export const keepNewest = ({ name, key: keyColumns, columns }: DeclaredTable): string => {
  const key = keyColumns.join(", ");
  return `
insert into ${name} as kept (${listOf(columns)})
select distinct on (${key}) ${storedFrom(columns)}
from ${givenTexts(columns)}
order by ${key}, version desc
on conflict (${key}) do update set ${replacedBut(columns, ...keyColumns)}
where kept.version < excluded.version`;
};
