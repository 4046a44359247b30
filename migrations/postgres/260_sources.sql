-- External sources: who else sends or holds events of a client, and how a payload of theirs becomes an event.
create sequence source_ids as int;
create table sources (
  source_id int primary key default nextval('source_ids'),
  client_id int not null,
  -- Raised by each change of what edges read.
  version int not null default 1 check (version > 0),
  slug text not null check (slug ~ '^[a-z0-9][a-z0-9_-]{0,39}$'),
  name text not null check (char_length(name) between 1 and 200),
  kind text not null check (kind in ('generic', 'postback_network', 'property_relay', 'mmp')),
  -- How a property relay measures; null for every other kind.
  mode text check (mode in ('measurement_relay', 'data_warehouse')),
  state text not null default 'draft' check (state in ('draft', 'active', 'paused')),
  -- By logical field the dot path or JSON Pointer of where its value lies.
  mapping jsonb not null default '{}',
  -- By logical field what every event of the source has.
  constants jsonb not null default '{}',
  -- Their event names, and ours.
  event_names jsonb not null default '{}',
  -- Addresses and CIDR blocks; none: every address.
  allow_ips text[] not null default '{}',
  -- Signs payloads. Sealed; null: payloads are not signed.
  secret text,
  -- What raw payloads are sealed under: 32 bytes, sealed.
  vault text not null,
  -- Of the key in the address of its postbacks; null: it has none.
  key_sha256 bytea unique check (length(key_sha256) = 32),
  key_rotated_at timestamptz(3),
  -- Where and how its events are pulled; null: they are not. The credential is sealed.
  pull jsonb,
  pull_secret text,
  pull_cursor jsonb,
  last_pull_at timestamptz(3),
  last_pull_stats jsonb,
  created_at timestamptz(3) not null default clock_timestamp(),
  updated_at timestamptz(3) not null default clock_timestamp(),
  unique (client_id, slug),
  unique (client_id, source_id),
  check ((mode is not null) = (kind = 'property_relay'))
);
alter table sources enable row level security;
alter table sources force row level security;
create policy tenant on sources to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
grant select, insert, update on sources to tributary_app;
grant usage on sequence source_ids to tributary_app;
-- Edges know every source, as they know every token: by its key too.
create policy edge on sources for select to tributary_edge using (true);
grant select on sources to tributary_edge;
-- Pulls are work of a schedule.
create policy keeper on sources to tributary_keeper using (true) with check (true);
grant select, update (pull_cursor, last_pull_at, last_pull_stats) on sources to tributary_keeper;
-- What is sealed is sealed again when the secret of the installation changes.
create policy secrets on sources to tributary_secrets using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
grant select (source_id, client_id, secret, vault, pull_secret), update (secret, vault, pull_secret) on sources to tributary_secrets;

-- What came from a source as it came, for 48 hours.
create table source_payloads (
  payload_id bigint generated always as identity primary key,
  client_id int not null,
  source_id int not null,
  received_at timestamptz(3) not null,
  outcome text not null check (outcome in ('accepted', 'duplicate', 'refused')),
  -- Of a refusal.
  code text check (char_length(code) <= 64),
  sealed bytea not null,
  foreign key (client_id, source_id) references sources (client_id, source_id)
);
create index source_payloads_newest on source_payloads (client_id, source_id, received_at desc);
create index source_payloads_received on source_payloads (received_at);

alter table source_payloads enable row level security;
alter table source_payloads force row level security;
create policy tenant on source_payloads to tributary_app, tributary_edge using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy keeper on source_payloads to tributary_keeper using (true);
grant select, delete on source_payloads to tributary_app;
grant insert on source_payloads to tributary_edge;
-- The purge.
grant select, delete on source_payloads to tributary_keeper;
