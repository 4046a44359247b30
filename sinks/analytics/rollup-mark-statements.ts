// The statement that marks minutes as touched.
import type { Statements } from "../stores/postgres.ts";

/** `marked_at` stays: it is the oldest touch that waits. */
const touched = `
insert into rollup_marks (client_id, minute, sequence)
select client_id, to_timestamp(minute / 1000.0), nextval('rollup_mark_sequence')
from json_to_recordset($1::json) as given (client_id int, minute bigint)
order by client_id, minute
on conflict (client_id, minute) do update set sequence = excluded.sequence`;

export const rollupMarkStatements: Statements = { rollup_marks: [touched] };
