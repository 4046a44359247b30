-- What enrich and score learn of a client: where its visitors are (in EU, UK and BR nothing is allowed until somebody agrees), and its fraud rules.
alter table clients
  add column jurisdiction text not null default 'MX' check (jurisdiction in ('MX', 'EU', 'UK', 'BR')),
  add column fraud_rules jsonb not null default '{}' check (jsonb_typeof(fraud_rules) = 'object');

-- Which identifiers a device showed: keyed hashes only, each edge with the event that proves it. A reading of events.attributed that can be thrown away
-- and read again: the first evidence, the last sight and the expiry do not depend on the order in which events come.
create table identity_edges (
  client_id int not null,
  did text not null,
  kind text not null check (kind in ('email', 'login')),
  identifier text not null check (identifier ~ '^[0-9a-f]{64}$'),
  -- Deterministic methods only; what is merely likely never joins two devices.
  method text not null,
  confidence int not null check (confidence between 1 and 100),
  evidence_event_id uuid not null,
  first_seen timestamptz(3) not null,
  last_seen timestamptz(3) not null,
  expires_at timestamptz(3) not null,
  primary key (client_id, did, kind, identifier)
) with (fillfactor = 80);
create index identity_edges_identifier on identity_edges (identifier, client_id);
-- Retention walks by it.
create index identity_edges_expiry on identity_edges (expires_at);

alter table identity_edges enable row level security;
alter table identity_edges force row level security;
grant select, insert, update, delete on identity_edges to tributary_app;
create policy tenant on identity_edges to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
