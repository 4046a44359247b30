// The statement that keeps the newest version of each sale and refund.
import type { Statements } from "../stores/postgres.ts";

const columns =
  "client_id, event_id, version, t, order_id, product_id, segment, quantity, value_minor, currency, occurred_at, did, credit_status, credit_reason, " +
  "partner_id, campaign_id, fraud_band, merged_into";

/**
 * Keys are sorted, so that two writers wait for each other and never deadlock; of one key only the
 * newest version is touched.
 */
const newest = `
insert into product_sales as kept (${columns})
select distinct on (client_id, event_id)
  client_id, event_id, version, t, order_id, product_id, segment, quantity, value_minor, currency, to_timestamp(occurred_at / 1000.0), did,
  credit_status, credit_reason, partner_id, campaign_id, fraud_band, merged_into
from json_to_recordset($1::json) as given (
  client_id int, event_id uuid, version int, t text, order_id text, product_id text, segment text, quantity int, value_minor bigint, currency text,
  occurred_at bigint, did text, credit_status text, credit_reason text, partner_id int, campaign_id int, fraud_band text, merged_into uuid)
order by client_id, event_id, version desc
on conflict (client_id, event_id) do update set
  version = excluded.version, t = excluded.t, order_id = excluded.order_id, product_id = excluded.product_id, segment = excluded.segment,
  quantity = excluded.quantity, value_minor = excluded.value_minor, currency = excluded.currency, occurred_at = excluded.occurred_at,
  did = excluded.did, credit_status = excluded.credit_status, credit_reason = excluded.credit_reason, partner_id = excluded.partner_id,
  campaign_id = excluded.campaign_id, fraud_band = excluded.fraud_band, merged_into = excluded.merged_into
where kept.version < excluded.version`;

export const productSaleStatements: Statements = { product_sales: [newest] };
