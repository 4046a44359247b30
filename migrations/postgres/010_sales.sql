-- What the money events of the log say, for reports and portals: a reading of events.attributed and conversions that can be thrown away and read again.
-- Rows are written by key and version: an older version never replaces a newer one, whatever comes in which order.

-- Every purchase, ext_purchase and refund, attributed or not. A second copy of a sale stays, marked by `merged_into`, and counts nowhere.
create table product_sales (
  client_id int not null,
  event_id uuid not null,
  version int not null check (version > 0),
  t text not null check (t in ('purchase', 'ext_purchase', 'refund')),
  order_id text,
  product_id text,
  segment text,
  quantity int,
  -- Null on a refund means: all of it.
  value_minor bigint,
  currency text,
  -- Event time; the month of a sale is that of America/Mexico_City.
  occurred_at timestamptz(3) not null,
  did text not null,
  credit_status text not null check (credit_status in ('attributed', 'unattributed')),
  credit_reason text,
  partner_id int,
  campaign_id int,
  fraud_band text not null,
  merged_into uuid,
  primary key (client_id, event_id)
) with (fillfactor = 80);
create index product_sales_order on product_sales (order_id, client_id);

-- One row a conversion, as its newest record left it.
create table conversions (
  client_id int not null,
  conversion_id text not null,
  version int not null check (version > 0),
  partner_id int not null,
  campaign_id int,
  event_id uuid not null,
  cause_event_id uuid not null,
  event_type text not null,
  order_id text,
  product_id text,
  segment text,
  quantity int,
  customer text not null,
  occurred_at timestamptz(3) not null,
  -- Value of the line when it was credited, and what was taken back of it so far.
  value_minor bigint not null,
  refunded_minor bigint not null,
  currency text not null,
  -- Reversed: nothing of the line is left. A line of which a part was taken back stays credited.
  status text not null check (status in ('credited', 'reversed')),
  reason text,
  review text,
  method text not null,
  rule_id int,
  rule_version int,
  content_hash bytea not null,
  primary key (client_id, conversion_id)
) with (fillfactor = 80);
create index conversions_partner on conversions (partner_id, client_id, occurred_at);

-- One id has one content (law R11). In the class of broken constraints, so that the record at fault is set aside and the others go on.
create function refuse_second_content(kind text, id text) returns void language plpgsql as $$
begin
  raise exception '% % is there with another content', kind, id
    using errcode = 'unique_violation', hint = 'two records bear one id; the first one stands';
end $$;

do $$
declare
  name text;
begin
  foreach name in array array['product_sales', 'conversions'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('grant select, insert, update on %I to tributary_app', name);
    execute format('create policy tenant on %I to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()))', name);
  end loop;
end $$;
