// Tables of marks, which say what must be computed again. A key is marked once. Its sequence rises
// with every touch, so that a reader who started earlier sees the new touch.
import {
  bigint,
  type Columns,
  computed,
  givenTexts,
  int,
  listOf,
  storedFrom,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import { postgresTable } from "./postgres.ts";

/** A mark as written. */
export type MarkOf<Key extends Columns> = { readonly client_id: number } & WrittenRow<Key>;

/** `key` identifies a mark within its client. Columns that are not named here keep their value. */
export const markTable = <Key extends Columns>(name: string, key: Key) => {
  const given = { ...key, client_id: int };
  const columns = { client_id: int, ...key, sequence: computed(bigint, "nextval('rollup_mark_sequence')") };
  const keys = ["client_id", ...Object.keys(key)] as const;
  const touch = `
insert into ${name} (${listOf(columns)})
select ${storedFrom(columns)}
from ${givenTexts(given)}
order by ${keys.join(", ")}
on conflict (${keys.join(", ")}) do update set sequence = excluded.sequence`;
  const table = postgresTable<MarkOf<Key>>(
    { name, key: keys as readonly ("client_id" | (keyof Key & string))[], columns },
    [{ text: touch, columns: given }],
  );
  return { table, columns };
};
