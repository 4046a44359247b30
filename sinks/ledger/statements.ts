// The statements that add entries and lines to the ledger, and compute commissions from it.
import {
  type DeclaredTable,
  eachWithKept,
  givenRows,
  listOf,
  pick,
  replacedBut,
  storedFrom,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import type { Statement } from "../stores/postgres.ts";
import type { LedgerRow, lineColumns } from "./table.ts";

const addEntries = ({ columns }: DeclaredTable): string => `
insert into ledger_entries (${listOf(columns)})
select ${storedFrom(columns)}
from ${givenRows(columns)}
order by client_id, entry_id
on conflict (client_id, entry_id) do nothing`;

/**
 * A statement of its own: it sees what the one before it wrote, and what another owner wrote while
 * that one waited.
 */
const refuseSecondContent = ({ columns }: DeclaredTable): string => `
select refuse_second_content('ledger entry', given.entry_id)
from ${givenRows(pick(columns, "client_id", "entry_id", "content_hash"))}
${eachWithKept("ledger_entries", "client_id", "entry_id")}
where kept.content_hash <> decode(given.content_hash, 'hex')`;

/** Of every given entry, not only of new ones: lines that were lost come back with a replay. */
const linesOf = (rows: readonly LedgerRow[]): readonly WrittenRow<typeof lineColumns>[] =>
  rows.flatMap(({ client_id, entry_id, currency, lines }) =>
    lines.map(({ account, amount_minor }, n) => ({
      client_id,
      entry_id,
      line: n + 1,
      account,
      currency,
      amount_minor,
    })),
  );

const addLines = ({ columns }: DeclaredTable): string => `
insert into ledger_lines (${listOf(columns)})
select ${storedFrom(columns)}
from ${givenRows(columns)}
order by client_id, entry_id, line
on conflict (client_id, entry_id, line) do nothing`;

const conversionsOf = (rows: readonly LedgerRow[]): readonly string[] => [
  ...new Set(rows.map(({ conversion_id }) => conversion_id)),
];

/**
 * The entries of each touched conversion; `first` is the first of them. Found by conversion alone,
 * for the policy adds the tenants: with the client named twice the planner expects a single row and
 * takes any index.
 */
const summedEntries = `
  select client_id, conversion_id, count(*) as entries, sum(amount_minor) as amount_minor,
    sum(held_minor) as held_minor, max(payable_from) as payable_from,
    bool_or(kind = 'reversal' or (reverses_entry_id is not null and kind = 'adjustment')) as is_reversed,
    (array_agg(entry order by conversion_version, entry_id))[1] as first,
    (array_agg(reason order by conversion_version desc, entry_id desc)
      filter (where reason is not null))[1] as reason,
    jsonb_agg(jsonb_build_object('entry_id', entry_id, 'kind', kind, 'amount_minor', amount_minor::text,
      'formula', formula, 'reason', reason) order by conversion_version, entry_id) as listed
  from ledger_entries as entry
  where conversion_id = any (array(select json_array_elements_text($1::json)))
  group by client_id, conversion_id`;

const computeCommissions = ({ columns }: DeclaredTable): string => `
with summed as (${summedEntries}
)
insert into commissions as kept (${listOf(columns)})
select ${storedFrom(columns)}
from summed
order by client_id, conversion_id
on conflict (client_id, conversion_id) do update set
  ${replacedBut(columns, "client_id", "commission_id", "conversion_id")}
where kept.version < excluded.version`;

export const statementsOf = (tables: {
  readonly entries: DeclaredTable;
  readonly lines: DeclaredTable;
  readonly commissions: DeclaredTable;
}): readonly Statement<LedgerRow>[] => [
  { text: addEntries(tables.entries) },
  { text: refuseSecondContent(tables.entries), isOfRowsLeftOut: true },
  { text: addLines(tables.lines), given: linesOf },
  { text: computeCommissions(tables.commissions), given: conversionsOf },
];
