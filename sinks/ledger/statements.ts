// The statements that add entries and lines to the ledger, and compute commissions from it.
import {
  type Columns,
  type DeclaredTable,
  eachWithKept,
  givenTexts,
  listOf,
  pick,
  replacedBut,
  storedFrom,
  text,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import type { Statement } from "../stores/postgres.ts";
import type { LedgerRow, lineColumns } from "./columns.ts";

const addEntries = ({ columns }: DeclaredTable): string => `
insert into ledger_entries (${listOf(columns)})
select ${storedFrom(columns)}
from ${givenTexts(columns)}
order by client_id, entry_id
on conflict (client_id, entry_id) do nothing`;

/**
 * A separate statement, so that it sees what the previous one wrote, and what another owner wrote
 * while that one waited.
 */
const refuseSecondContent = (contents: Columns): string => `
select refuse_second_content('ledger entry', given.entry_id)
from ${givenTexts(contents)}
${eachWithKept("ledger_entries", "client_id", "entry_id")}
where kept.content_hash <> decode(given.content_hash, 'hex')`;

/** The lines of every entry, not only of new ones, so that a replay restores lost lines. */
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

/** A new entry has no stored lines, so conflicts need no check. */
const addLinesOfNew = ({ columns }: DeclaredTable): string => `
insert into ledger_lines (${listOf(columns)})
select ${storedFrom(columns)}
from ${givenTexts(columns)}
order by client_id, entry_id, line`;
const addLines = (lines: DeclaredTable): string => `${addLinesOfNew(lines)}
on conflict (client_id, entry_id, line) do nothing`;

const conversionsOf = (rows: readonly LedgerRow[]): readonly WrittenRow<typeof touched>[] =>
  [...new Set(rows.map(({ conversion_id }) => conversion_id))].map((conversion_id) => ({ conversion_id }));
const touched = { conversion_id: text };

/** An entry that another line or sale caused comes after the line's own one. */
const BY_OWN_FIRST = "coalesce(reason, '') in ('order_line_left', 'first_sale_moved')";

/**
 * The entries of each touched conversion. `first` is the first of them. The query names only the
 * conversion, because the row policy adds the tenants. If the client were named twice, the planner
 * would expect a single row and use any index.
 */
const summedEntries = `
  select client_id, conversion_id, count(*) as entries, sum(amount_minor) as amount_minor,
    sum(held_minor) as held_minor, max(payable_from) as payable_from,
    bool_or(kind = 'reversal' or (reverses_entry_id is not null and kind = 'adjustment')) as is_reversed,
    (array_agg(entry order by conversion_version, ${BY_OWN_FIRST}, entry_id))[1] as first,
    (array_agg(reason order by conversion_version desc, ${BY_OWN_FIRST} desc, entry_id desc)
      filter (where reason is not null))[1] as reason,
    jsonb_agg(jsonb_build_object('entry_id', entry_id, 'kind', kind, 'amount_minor', amount_minor::text,
      'formula', formula, 'reason', reason)
      order by conversion_version, ${BY_OWN_FIRST}, entry_id) as listed
  from ledger_entries as entry
  where conversion_id = any (array(select conversion_id from ${givenTexts(touched)}))
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
}): readonly Statement<LedgerRow>[] => {
  const contents = pick(tables.entries.columns, "client_id", "entry_id", "content_hash");
  return [
    { text: addEntries(tables.entries) },
    { text: refuseSecondContent(contents), columns: contents, behind: "some" },
    { text: addLines(tables.lines), given: linesOf, columns: tables.lines.columns, behind: "some" },
    { text: addLinesOfNew(tables.lines), given: linesOf, columns: tables.lines.columns, behind: "all" },
    { text: computeCommissions(tables.commissions), given: conversionsOf, columns: touched },
  ];
};
