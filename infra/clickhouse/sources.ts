// Where the value of each column comes from, declared once for rows that are made of values and for
// blocks that are made of the bytes of the log.
import type { Recorded } from "../../stream/flow.ts";
import type { DeclaredColumn, WrittenRecord } from "./columns.ts";
import type { NativeValue } from "./native.ts";

/** A field of the event's record, unchanged. */
export interface FieldSource<T, Value> {
  readonly path: readonly string[];
  /** The column is null where this does not hold. */
  readonly when?: (event: Recorded<T>) => boolean;
  /** Never present; it carries the type of the value. */
  readonly value?: Value;
}
/** A value made from the whole event. */
export interface MadeSource<T, Value> {
  readonly make: (event: Recorded<T>) => Value;
}
export type Source<T, Value> = FieldSource<T, Value> | MadeSource<T, Value>;

/** A source for each column, by its name. */
export type Sources<T, Columns extends readonly DeclaredColumn[]> = {
  readonly [Name in keyof WrittenRecord<Columns>]: Source<T, WrittenRecord<Columns>[Name]>;
};

/** Amounts are written as digits. */
type AsWritten<Value> = Value extends bigint ? string : Value;
/**
 * The value at a path of names with dots between them; null where a record on the path may be null.
 */
type ValueAt<T, Path extends string> = Path extends `${infer First}.${infer Rest}`
  ? First extends keyof NonNullable<T>
    ? ValueAt<NonNullable<T>[First], Rest> | Extract<T, null>
    : never
  : Path extends keyof NonNullable<T>
    ? AsWritten<NonNullable<T>[Path]> | Extract<T, null>
    : never;

/** Makes the sources of records of this type. */
export const sourcesOf = <T>() => ({
  field: <const Path extends string>(path: Path): FieldSource<T, ValueAt<T, Path>> => ({ path: path.split(".") }),
  fieldWhen: <const Path extends string>(
    when: (event: Recorded<T>) => boolean,
    path: Path,
  ): FieldSource<T, ValueAt<T, Path> | null> => ({ path: path.split("."), when }),
  made: <Value>(make: (event: Recorded<T>) => Value): MadeSource<T, Value> => ({ make }),
});

/** JSON of the items that `pick` returns; most lists are empty. */
export const listAsJson = <Item>(items: readonly Item[], pick: (item: Item) => object): string =>
  items.length === 0 ? "[]" : JSON.stringify(items.map(pick));

/** The values of an event in the order of the columns. */
export const valuesOf = <T, const Columns extends readonly DeclaredColumn[]>(
  columns: Columns,
  sources: Sources<T, Columns>,
) => {
  const reads = columns.map(({ name }) => readerOf(sources[name as keyof Sources<T, Columns>]));
  return (event: Recorded<T>): readonly NativeValue[] => reads.map((read) => read(event) as NativeValue);
};

const readerOf = <T>(source: Source<T, unknown>): ((event: Recorded<T>) => unknown) => {
  if ("make" in source) return source.make;
  const { path, when = () => true } = source;
  return (event) => {
    if (!when(event)) return null;
    let value: any = event.data;
    for (const name of path) {
      if (value === null) return null;
      value = value[name];
    }
    return typeof value === "bigint" ? value.toString() : value;
  };
};
