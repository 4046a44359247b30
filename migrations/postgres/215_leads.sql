-- Signed lead pushes: what is no one's personal data, the sealed rest, and the keys that it is sealed under.

-- One row a lead, as the first push of it said: a later one changes nothing. lead_id derives from the client and its own id of the lead.
create table leads (
  client_id int not null,
  lead_id text not null check (lead_id ~ '^led_[0-9a-f]{32}$'),
  -- Of its lead_submit event in the log.
  event_id uuid not null,
  -- As the log has it: what is shaped like an address is a keyed hash. Null once the lead was erased by it.
  client_lead_id text,
  product text,
  stage text,
  value_minor bigint,
  currency text,
  -- When it was pushed, it bore a click id that could be credited.
  has_good_click boolean not null,
  event_at timestamptz(3) not null,
  received_at timestamptz(3) not null,
  primary key (client_id, lead_id)
);
create index leads_received on leads (client_id, received_at, lead_id);

-- Plain personal data, sealed, with the keyed hashes by which a person's leads are found. Gone once one of its subjects was erased.
create table lead_people (
  client_id int not null,
  lead_id text not null,
  email text,
  phone text,
  sealed bytea not null,
  primary key (client_id, lead_id)
);
create index lead_people_email on lead_people (email, client_id) where email is not null;
create index lead_people_phone on lead_people (phone, client_id) where phone is not null;

-- One key a subject: an e-mail, a phone (keyed hashes), a lead (lead_id). A lead is sealed under all that it names, so without any one of them it is noise.
-- Each key is sealed under the client's vault.
create table lead_keys (
  client_id int not null,
  kind text not null check (kind in ('email', 'phone', 'lead')),
  subject text not null,
  sealed bytea not null,
  primary key (client_id, kind, subject)
);

do $$
declare
  name text;
begin
  foreach name in array array['leads', 'lead_people', 'lead_keys'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to tributary_app, tributary_secrets using (client_id = any (app_clients())) with check (client_id = any (app_clients()))', name);
  end loop;
end $$;
-- A lead is never changed, but for the id by which it was erased.
grant select, insert, update (client_lead_id) on leads to tributary_app;
grant select, insert, delete on lead_people to tributary_app;
-- An erasure destroys keys; only who may read what signs reads them.
grant select (client_id, kind, subject), delete on lead_keys to tributary_app;
grant select, insert, update (sealed) on lead_keys to tributary_secrets;

-- What the keys of a client's leads are sealed under: 32 bytes, sealed like the secret beside it. Made with the first lead.
alter table client_secrets add column lead_vault text;

-- A lead goes into the log with its row, or neither is there.
alter table outbox drop constraint outbox_topic_check,
  add constraint outbox_topic_check check (topic in ('reference.changes', 'domain.changes', 'events.raw'));
