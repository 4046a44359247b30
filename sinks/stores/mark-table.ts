// Tables of marks: what has to be computed again. A key is marked once, and its sequence rises with
// every touch, so that one who took it up before sees that it was touched since.
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

/** A mark as it is written. */
export type MarkOf<Key extends Columns> = { readonly client_id: number } & WrittenRow<Key>;

/** `key`: what a mark is about, beside its client. Columns without a name here keep their value. */
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
