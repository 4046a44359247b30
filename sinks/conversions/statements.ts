// The statements that keep the newest version of each conversion and refuse a second content of one
// version.
import type { Statements } from "../stores/postgres.ts";

const given = `json_to_recordset($1::json) as given (
  client_id int, conversion_id text, version int, partner_id int, campaign_id int, event_id uuid, cause_event_id uuid, event_type text, order_id text,
  product_id text, segment text, quantity int, customer text, occurred_at bigint, value_minor bigint, refunded_minor bigint, currency text, status text,
  reason text, review text, method text, rule_id int, rule_version int, content_hash text)`;

const newest = `
insert into conversions as kept (client_id, conversion_id, version, partner_id, campaign_id, event_id, cause_event_id, event_type, order_id, product_id,
  segment, quantity, customer, occurred_at, value_minor, refunded_minor, currency, status, reason, review, method, rule_id, rule_version, content_hash)
select distinct on (client_id, conversion_id)
  client_id, conversion_id, version, partner_id, campaign_id, event_id, cause_event_id, event_type, order_id, product_id, segment, quantity, customer,
  to_timestamp(occurred_at / 1000.0), value_minor, refunded_minor, currency, status, reason, review, method, rule_id, rule_version,
  decode(content_hash, 'hex')
from ${given}
order by client_id, conversion_id, version desc
on conflict (client_id, conversion_id) do update set
  version = excluded.version, partner_id = excluded.partner_id, campaign_id = excluded.campaign_id, event_id = excluded.event_id,
  cause_event_id = excluded.cause_event_id, event_type = excluded.event_type, order_id = excluded.order_id, product_id = excluded.product_id,
  segment = excluded.segment, quantity = excluded.quantity, customer = excluded.customer, occurred_at = excluded.occurred_at,
  value_minor = excluded.value_minor, refunded_minor = excluded.refunded_minor, currency = excluded.currency, status = excluded.status,
  reason = excluded.reason, review = excluded.review, method = excluded.method, rule_id = excluded.rule_id, rule_version = excluded.rule_version,
  content_hash = excluded.content_hash
where kept.version < excluded.version`;

/**
 * Only the newest version is kept, so an older one that had two contents is not seen here; the
 * ledger entry of each keeps its own hash.
 */
const oneContent = `
select refuse_second_content('conversion', given.conversion_id || ' version ' || given.version)
from ${given} join conversions as kept using (client_id, conversion_id, version)
where kept.content_hash <> decode(given.content_hash, 'hex')`;

export const conversionStatements: Statements = { conversions: [newest, oneContent] };
