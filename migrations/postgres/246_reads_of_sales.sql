-- What is left to be read sale by sale, each by an index that holds all that is asked for: orders of a partner or campaign are counted once however
-- many lines they have, refunds that settle kept with the conversion alone, entries on hold, sales without a contract.
create index product_sales_orders_of_partner on product_sales (partner_id, occurred_at)
  include (client_id, campaign_id, event_id, order_id, t, segment, currency)
  where credit_status = 'attributed' and t <> 'refund' and merged_into is null;
create index product_sales_orders_of_campaign on product_sales (campaign_id, occurred_at)
  include (client_id, partner_id, event_id, order_id, t, segment, currency)
  where credit_status = 'attributed' and t <> 'refund' and merged_into is null;
create index product_sales_unattributed on product_sales (client_id, occurred_at, event_id)
  where credit_status = 'unattributed' and t <> 'refund' and merged_into is null;
create index product_sales_sold on product_sales (client_id, occurred_at) where t <> 'refund' and merged_into is null;
-- The newest orders of a partner at all of its clients: the index with the client between the two is in no order of time.
create index conversions_newest_of_partner on conversions (partner_id, occurred_at);
create index conversions_given_back on conversions (client_id, occurred_at) where refunded_minor > 0;
create index ledger_entries_waiting on ledger_entries (partner_id, payable_from) include (client_id, currency, amount_minor, held_minor)
  where amount_minor > held_minor;
create index commissions_unpriced on commissions (partner_id, occurred_at) include (client_id)
  where amount_minor = 0 and reason = 'no_contract';
