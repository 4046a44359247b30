-- Reference data: what stages and edges look up. Rows are appended and never edited, so that any moment of the past can be seen as it was known.
-- Roles (tributary_app, tributary_reference, tributary_tokens, tributary_secrets) are made by sinks/postgres/migrate.ts before the first file runs.

-- Tenants of the transaction: `app.clients = '1,2,3'`, set with set_config(..., true). Unset or empty means none, hence no rows.
create function app_clients() returns int[] language sql stable parallel safe
  return string_to_array(current_setting('app.clients', true), ',')::int[];

-- One row a saved change. `recorded_at` lies 2 s ahead of the commit, so nothing becomes visible with a time already passed; change_id order is
-- commit order, since writers hold one advisory lock.
create sequence reference_change_ids as int;
create table reference_changes (
  change_id int primary key,
  recorded_at timestamptz(3) not null unique,
  actor text not null check (actor <> '')
);

create sequence client_ids as int;
create sequence partner_ids as int;
create sequence campaign_ids as int;
create sequence link_ids as int;
create sequence contract_ids as int;
create sequence rule_ids as int;

-- In every table below: `version` counts the rows of one id from 1; `valid_from` is the event time from which on a row says how things are.
-- Ids are not foreign keys into other tables: rows of one id are many, none is ever deleted, and the writer checks them under the lock.
create table clients (
  client_id int not null,
  version int not null,
  change_id int not null references reference_changes deferrable initially deferred,
  valid_from timestamptz(3) not null,
  slug text not null check (slug ~ '^[a-z0-9-]{2,40}$'),
  name text not null,
  status text not null check (status in ('active', 'paused', 'archived')),
  currency text not null check (currency ~ '^[A-Z]{3}$'),
  click_window_days int not null check (click_window_days between 1 and 90),
  install_window_days int not null check (install_window_days between 1 and 90),
  identity_link boolean not null,
  hold_days jsonb not null,
  fraud_review int not null,
  fraud_reject int not null,
  consent_default int not null check (consent_default between 0 and 255),
  fallback_url text,
  retention_months int not null check (retention_months between 1 and 24),
  plan text not null,
  -- Codes of the active segments: the writer keeps it beside the rows of `segments`, because edges ask for nothing else.
  segments text[] not null,
  primary key (client_id, version),
  check (fraud_review between 0 and 100 and fraud_reject between fraud_review and 100)
);
-- A slug is claimed by the first row of a client, for good.
create unique index clients_slug on clients (slug) where version = 1;

create table segments (
  client_id int not null,
  code text not null check (code ~ '^[A-Z0-9]{2,8}$'),
  version int not null,
  change_id int not null references reference_changes deferrable initially deferred,
  valid_from timestamptz(3) not null,
  name text not null,
  active boolean not null,
  primary key (client_id, code, version)
);

create table partners (
  partner_id int not null,
  version int not null,
  change_id int not null references reference_changes deferrable initially deferred,
  valid_from timestamptz(3) not null,
  name text not null,
  email text not null,
  status text not null check (status in ('invited', 'active', 'paused', 'archived')),
  client_ids int[] not null,
  -- Every client that was ever listed: a client that a partner left must see the row which says so, or the row before would seem the newest.
  known_to int[] not null check (known_to @> client_ids and cardinality(known_to) > 0),
  payout_currency text not null check (payout_currency ~ '^[A-Z]{3}$'),
  payout_min_amount numeric(18, 3) not null check (payout_min_amount >= 0),
  referral_code text,
  primary key (partner_id, version)
);

create table campaigns (
  campaign_id int not null,
  version int not null,
  change_id int not null references reference_changes deferrable initially deferred,
  valid_from timestamptz(3) not null,
  client_id int not null,
  name text not null,
  status text not null check (status in ('draft', 'active', 'paused', 'ended')),
  -- Days in America/Mexico_City, both included.
  starts_on date,
  ends_on date check (ends_on >= starts_on),
  destination_url text not null,
  fallback_url text,
  patterns jsonb not null,
  primary key (campaign_id, version)
);

create table links (
  link_id int not null,
  version int not null,
  change_id int not null references reference_changes deferrable initially deferred,
  valid_from timestamptz(3) not null,
  client_id int not null,
  campaign_id int not null,
  partner_id int not null,
  code text not null check (code ~ '^[A-Za-z0-9_-]{3,64}$'),
  status text not null check (status in ('active', 'archived')),
  primary key (link_id, version)
);
create unique index links_code on links (code) where version = 1;

create table segment_commissions (
  contract_id int not null,
  version int not null,
  change_id int not null references reference_changes deferrable initially deferred,
  valid_from timestamptz(3) not null,
  client_id int not null,
  partner_id int not null,
  segment text,
  event_type text not null,
  type text not null check (type in ('percent', 'flat', 'tiered', 'recurring', 'hybrid')),
  -- Percent, 4 decimals: parts per million without the point.
  rate numeric(7, 4) check (rate between 0 and 100),
  amount_minor bigint check (amount_minor >= 0),
  status text not null check (status in ('active', 'archived')),
  -- Days in America/Mexico_City: in force from the first one up to, not including, the second.
  effective_from date not null,
  effective_to date check (effective_to > effective_from),
  primary key (contract_id, version),
  check (type <> 'percent' or rate is not null)
);
create unique index segment_commissions_key on segment_commissions (partner_id, client_id, segment, event_type, effective_from)
  nulls not distinct where version = 1;

create table rules (
  rule_id int not null,
  version int not null,
  change_id int not null references reference_changes deferrable initially deferred,
  valid_from timestamptz(3) not null,
  client_id int not null,
  name text not null,
  status text not null check (status in ('active', 'inactive')),
  priority int not null,
  effective_from date,
  effective_to date check (effective_to > effective_from),
  "when" jsonb not null,
  "then" jsonb not null,
  primary key (rule_id, version)
);

-- Processes that keep a snapshot poll for what came after the change they know.
create index clients_change on clients (change_id);
create index segments_change on segments (change_id);
create index partners_change on partners (change_id);
create index campaigns_change on campaigns (change_id);
create index links_change on links (change_id);
create index segment_commissions_change on segment_commissions (change_id);
create index rules_change on rules (change_id);

grant select, insert on reference_changes to tributary_app;
grant select on reference_changes to tributary_reference;
grant usage on sequence reference_change_ids, client_ids, partner_ids, campaign_ids, link_ids, contract_ids, rule_ids to tributary_app, tributary_reference;

-- Insert-only by grant. tributary_app sees the rows of its transaction's tenants; tributary_reference reads all of them and writes none: a process
-- takes that role on (SET LOCAL ROLE) for as long as it loads its snapshot, in which the tenants of the next events are not known yet.
do $$
declare
  name text;
begin
  foreach name in array array['clients', 'segments', 'partners', 'campaigns', 'links', 'segment_commissions', 'rules'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('grant select, insert on %I to tributary_app', name);
    execute format('grant select on %I to tributary_reference', name);
    execute format('create policy snapshot on %I for select to tributary_reference using (true)', name);
    if name <> 'partners' then
      execute format('create policy tenant on %I to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()))', name);
    end if;
  end loop;
end $$;
create policy tenant on partners to tributary_app
  using (known_to && app_clients())
  with check (client_ids <@ app_clients() and known_to && app_clients());
