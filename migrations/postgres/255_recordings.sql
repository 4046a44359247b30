-- Recorded visits: what names their objects in object storage, and the keys that those are sealed under.

-- One row a visit (a session of the browser's script) that is recorded. Its content is in objects alone.
create table recordings (
  client_id int not null,
  session_id text not null check (session_id ~ '^[A-Za-z0-9_-]{8,64}$'),
  -- Keyed hash, as the log has it. Null once the visitor was erased.
  device text,
  started_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  -- The mask under which its newest chunk was taken.
  consent smallint not null check (consent between 0 and 255),
  chunks int not null default 0,
  events int not null default 0,
  -- As they came, before they were packed and sealed.
  bytes bigint not null default 0,
  -- The key of the visitor is gone; the objects go with the next purge.
  erased_at timestamptz(3),
  primary key (client_id, session_id)
);
create index recordings_started on recordings (started_at);
create index recordings_of_day on recordings (client_id, started_at);
create index recordings_device on recordings (client_id, device) where device is not null;
create index recordings_erased on recordings (erased_at) where erased_at is not null;

-- One row an object, committed before the object is stored: whatever is stored is named here.
create table recording_chunks (
  client_id int not null,
  session_id text not null,
  -- One page view of the visit; its chunks are numbered from 0.
  page text not null check (page ~ '^[0-9a-f]{16,32}$'),
  seq int not null check (seq >= 0),
  events int not null,
  first_at timestamptz(3) not null,
  last_at timestamptz(3) not null,
  primary key (client_id, session_id, page, seq),
  foreign key (client_id, session_id) references recordings on delete cascade
);

-- One key a device, sealed under the vault of its client: without it no object of the device can be read.
create table recording_keys (
  client_id int not null,
  device text not null,
  sealed bytea not null,
  primary key (client_id, device)
);

do $$
declare
  name text;
begin
  foreach name in array array['recordings', 'recording_chunks', 'recording_keys'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to tributary_app, tributary_edge using (client_id = any (app_clients())) with check (client_id = any (app_clients()))', name);
    execute format('create policy keeper on %I to tributary_keeper using (true)', name);
  end loop;
end $$;
grant select, insert, update on recordings to tributary_edge;
grant select, insert on recording_chunks, recording_keys to tributary_edge;
-- An erasure destroys keys, and reads none.
grant select, update (device, erased_at) on recordings to tributary_app;
grant select (client_id, device), delete on recording_keys to tributary_app;
-- The purge.
grant select, delete on recordings to tributary_keeper;
grant select on recording_chunks to tributary_keeper;
grant select (client_id, device), delete on recording_keys to tributary_keeper;

-- What the keys of a client's recordings are sealed under: 32 bytes, sealed like the secret beside it. Made with the first recording.
alter table client_secrets add column recording_vault text;
grant select (client_id, recording_vault), update (recording_vault) on client_secrets to tributary_edge;
create policy vault on client_secrets to tributary_edge using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
