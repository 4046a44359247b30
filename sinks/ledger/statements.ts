// The statements that add entries and lines to the ledger, and compute commissions from it.
import type { Statements } from "../stores/postgres.ts";

const entries = `
insert into ledger_entries (client_id, entry_id, kind, partner_id, campaign_id, conversion_id, change_id, conversion_version, event_type, segment,
  currency, amount_minor, held_minor, reason, contract_id, contract_version, commission_type, formula, inputs, occurred_at, payable_from, year, month, held,
  reverses_entry_id, content_hash)
select client_id, entry_id, kind, partner_id, campaign_id, conversion_id, change_id, conversion_version, event_type, segment,
  currency, amount_minor, held_minor, reason, contract_id, contract_version, commission_type, formula, inputs::jsonb, to_timestamp(occurred_at / 1000.0),
  to_timestamp(payable_from / 1000.0), year, month, held, reverses_entry_id, decode(content_hash, 'hex')
from json_to_recordset($1::json) as given (
  client_id int, entry_id text, kind text, partner_id int, campaign_id int, conversion_id text, change_id text, conversion_version int, event_type text,
  segment text, currency text, amount_minor bigint, held_minor bigint, reason text, contract_id int, contract_version int, commission_type text, formula text, inputs text,
  occurred_at bigint, payable_from bigint, year int, month int, held boolean, reverses_entry_id text, content_hash text)
order by client_id, entry_id
on conflict (client_id, entry_id) do nothing`;

/**
 * A statement of its own: it sees what the one before it wrote, and what another owner wrote while
 * that one waited.
 */
const oneContent = `
select refuse_second_content('ledger entry', given.entry_id)
from json_to_recordset($1::json) as given (client_id int, entry_id text, content_hash text)
join ledger_entries as kept using (client_id, entry_id)
where kept.content_hash <> decode(given.content_hash, 'hex')`;

/** Of every given entry, not only of new ones: lines that were lost come back with a replay. */
const lines = `
insert into ledger_lines (client_id, entry_id, line, account, currency, amount_minor)
select client_id, entry_id, line, item ->> 'account', currency, (item ->> 'amount_minor')::bigint
from json_to_recordset($1::json) as given (client_id int, entry_id text, currency text, lines json),
  json_array_elements(lines) with ordinality as listed (item, line)
order by client_id, entry_id, line
on conflict (client_id, entry_id, line) do nothing`;

/**
 * The first entry tells whose commission it is and under which contract; the amount is the sum of
 * all. Found by conversion alone, for the policy adds the tenants: with the client named twice the
 * planner expects a single row and takes any index.
 */
const commissions = `
with summed as (
  select client_id, conversion_id, count(*) as entries, sum(amount_minor) as amount_minor, sum(held_minor) as held_minor,
    bool_or(kind = 'reversal') as is_reversed, max(payable_from) as payable_from,
    (array_agg(entry order by conversion_version, entry_id))[1] as first,
    (array_agg(reason order by conversion_version desc, entry_id desc) filter (where reason is not null))[1] as reason,
    jsonb_agg(jsonb_build_object('entry_id', entry_id, 'kind', kind, 'amount_minor', amount_minor::text, 'formula', formula, 'reason', reason)
      order by conversion_version, entry_id) as listed
  from ledger_entries as entry
  where conversion_id = any (array(select distinct conversion_id from json_to_recordset($1::json) as given (conversion_id text)))
  group by client_id, conversion_id
)
insert into commissions as kept (client_id, commission_id, conversion_id, version, partner_id, campaign_id, event_type, segment, type, amount_minor,
  currency, status, reason, year, month, occurred_at, payable_from, contract_id, contract_version, receipt)
select client_id, 'cms_' || regexp_replace(conversion_id, '^cnv_', ''), conversion_id, entries, (first).partner_id, (first).campaign_id,
  (first).event_type, (first).segment, (first).commission_type, amount_minor, (first).currency,
  case when is_reversed and amount_minor = 0 then 'reversed' when held_minor <> 0 then 'on_hold' else 'pending' end,
  reason, (first).year, (first).month, (first).occurred_at, payable_from, (first).contract_id, (first).contract_version,
  jsonb_build_object('formula', (first).formula, 'inputs', (first).inputs, 'entries', listed)
from summed
order by client_id, conversion_id
on conflict (client_id, conversion_id) do update set
  version = excluded.version, partner_id = excluded.partner_id, campaign_id = excluded.campaign_id, event_type = excluded.event_type,
  segment = excluded.segment, type = excluded.type, amount_minor = excluded.amount_minor, currency = excluded.currency, status = excluded.status,
  reason = excluded.reason, year = excluded.year, month = excluded.month, occurred_at = excluded.occurred_at, payable_from = excluded.payable_from,
  contract_id = excluded.contract_id, contract_version = excluded.contract_version, receipt = excluded.receipt
where kept.version < excluded.version`;

export const ledgerStatements: Statements = {
  ledger_entries: [entries, oneContent],
  ledger_lines: [lines],
  commissions: [commissions],
};
