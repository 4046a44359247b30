-- What figures of a partner or a campaign read: its sales, conversions and entries of a range of days, and what of the ledger is held.
create index product_sales_partner on product_sales (partner_id, occurred_at) where partner_id is not null;
create index product_sales_campaign on product_sales (campaign_id, occurred_at) where campaign_id is not null;
create index product_sales_refused on product_sales (client_id, occurred_at) where credit_reason = 'fraud_rejected';
create index conversions_campaign on conversions (campaign_id, occurred_at) where campaign_id is not null;
create index ledger_entries_partner on ledger_entries (partner_id, occurred_at);
create index ledger_entries_campaign on ledger_entries (campaign_id, occurred_at) where campaign_id is not null;
create index ledger_entries_held on ledger_entries (client_id, occurred_at) include (partner_id, currency, amount_minor, held_minor) where held_minor <> 0;
create index commissions_campaign on commissions (campaign_id, occurred_at) where campaign_id is not null;
create index commissions_partner on commissions (partner_id, occurred_at);
