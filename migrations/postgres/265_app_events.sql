-- Installs and ext_* events, attributed or not. A reading of events.attributed that can be thrown away and read again: rows are written by key and
-- version, and an older version never replaces a newer one. A second copy of a conversion stays, marked by `merged_into`, and counts nowhere.
create table app_events (
  client_id int not null,
  event_id uuid not null,
  version int not null check (version > 0),
  event_type text not null check (event_type = 'install' or event_type like 'ext\_%'),
  -- The edge that took it.
  source text not null,
  -- Event time.
  occurred_at timestamptz(3) not null,
  -- A keyed hash.
  did text not null,
  order_id text,
  product_id text,
  segment text,
  value_minor bigint,
  currency text,
  sale_hash text,
  credit_status text not null check (credit_status in ('attributed', 'unattributed')),
  credit_reason text,
  partner_id int,
  campaign_id int,
  fraud_band text not null,
  merged_into uuid,
  primary key (client_id, event_id)
) with (fillfactor = 80);
create index app_events_when on app_events (client_id, occurred_at);

alter table app_events enable row level security;
alter table app_events force row level security;
grant select, insert, update on app_events to tributary_app;
create policy tenant on app_events to tributary_app using (client_id = any ((select app_clients())::int[]))
  with check (client_id = any ((select app_clients())::int[]));
