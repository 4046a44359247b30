// The columns of a ClickHouse table, declared once: the types of the values that are written, and
// how a query reads them.
import type { NativeType } from "./native.ts";
import { type Column, count, flag, minor, optional, text, texts, unixMs } from "./query.ts";

export interface DeclaredColumn {
  readonly name: string;
  readonly type: NativeType;
  /** Why two readings of one log may differ in this column; the state hash leaves it out. */
  readonly volatile?: string;
}

/** A table as the state hash reads it. */
export interface StoredTable {
  readonly name: string;
  /** Columns that name one row when two such tables are compared. */
  readonly key: readonly string[];
  readonly columns: readonly Pick<DeclaredColumn, "name" | "volatile">[];
  /** Leaves out rows that no query shows, whose presence may differ. */
  readonly where?: string;
}

type Inner<Type extends string> = Type extends `Nullable(${infer Of})` ? Of : Type;
type OrNull<Type extends string, Value> = Type extends `Nullable(${string})` ? Value | null : Value;

type WrittenValue<Type extends string> = Type extends "Bool"
  ? boolean
  : Type extends "Array(String)"
    ? readonly string[]
    : Type extends "String" | "UUID" | "Int64"
      ? string
      : number;
/** A row by position. */
export type WrittenValues<Of extends readonly DeclaredColumn[]> = {
  readonly [N in keyof Of]: OrNull<Of[N]["type"], WrittenValue<Inner<Of[N]["type"]>>>;
};

/** The same row by the names of the columns. */
export type WrittenRecord<Of extends readonly DeclaredColumn[]> = {
  readonly [One in Of[number] as One["name"]]: OrNull<One["type"], WrittenValue<Inner<One["type"]>>>;
};

type StoredValue<Type extends string> = Type extends "Int64" ? bigint : WrittenValue<Type>;
/** Each column by its name, as a query lists it. */
export type ColumnsOf<Of extends readonly DeclaredColumn[]> = {
  readonly [One in Of[number] as One["name"]]: Column<OrNull<One["type"], StoredValue<Inner<One["type"]>>>>;
};

const readerOf = (type: NativeType) => {
  const inner = /^Nullable\((.*)\)$/.exec(type)?.[1];
  if (inner !== undefined) return (name: string) => optional(plainReaderOf(inner)(name));
  return plainReaderOf(type);
};
const plainReaderOf = (type: string): ((name: string) => Column<any>) => {
  if (type === "Bool") return flag;
  if (type === "Array(String)") return texts;
  if (type === "String" || type === "UUID") return text;
  if (type === "Int64") return minor;
  return type.startsWith("DateTime64") ? unixMs : count;
};

export const columnsOf = <const Of extends readonly DeclaredColumn[]>(columns: Of): ColumnsOf<Of> =>
  Object.fromEntries(columns.map(({ name, type }) => [name, readerOf(type)(name)])) as ColumnsOf<Of>;

/** Picks some columns of a query. */
export const pickColumns = <Of extends object, Name extends keyof Of & string>(
  columns: Of,
  ...names: readonly Name[]
): Pick<Of, Name> => Object.fromEntries(names.map((name) => [name, columns[name]])) as Pick<Of, Name>;
