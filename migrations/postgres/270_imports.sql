-- Files of rows that become events: one row an import, and one for each row of a file that was taken.

create table imports (
  import_id text primary key check (import_id ~ '^imp_[0-9a-f-]{36}$'),
  client_id int not null,
  partner_id int not null,
  -- As the sender names it: data, never a path.
  filename text not null check (length(filename) between 1 and 200),
  source text not null check (source in ('put', 'v3', 'fast')),
  status text not null check (status in ('pending_upload', 'queued', 'processing', 'completed', 'completed_with_errors', 'failed', 'cancelled')),
  -- Ours to theirs; null: the columns bear our names.
  mapping jsonb,
  -- Of the plain file, once all of it is stored.
  bytes bigint check (bytes >= 0),
  parts int check (parts >= 0),
  sha256 text check (sha256 ~ '^[0-9a-f]{64}$'),
  same_file_as text,
  created_by text not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  started_at timestamptz(3),
  finished_at timestamptz(3) check ((finished_at is not null) = (status in ('completed', 'completed_with_errors', 'failed', 'cancelled'))),
  heartbeat_at timestamptz(3),
  undone_at timestamptz(3),
  cancel_requested_at timestamptz(3),
  -- One process has the lease; each that takes the import raises its fence, and writes of a lower fence are refused.
  leased_by text,
  lease_until timestamptz(3) check ((lease_until is not null) = (status = 'processing')),
  fence bigint not null default 0,
  -- Where the next process goes on: it moves with the counters, so each row is counted once.
  checkpoint jsonb,
  total bigint not null default 0,
  accepted bigint not null default 0,
  duplicate bigint not null default 0,
  rejected bigint not null default 0,
  check (total = accepted + duplicate + rejected),
  -- Minor units as text, by currency: what the file says, and what of it was taken.
  file_sums jsonb not null default '{}',
  stored_sums jsonb not null default '{}',
  error_codes jsonb not null default '{}',
  error text,
  -- When an import ends its file goes, and 30 days later its rejected rows.
  file_removed_at timestamptz(3),
  errors_removed_at timestamptz(3)
) with (fillfactor = 70);
create index imports_open on imports (created_at) where status in ('pending_upload', 'queued', 'processing');
create index imports_newest on imports (client_id, created_at desc, import_id);
create index imports_file on imports (client_id, sha256) where sha256 is not null;
create index imports_files on imports (finished_at) where file_removed_at is null;
create index imports_errors on imports (finished_at) where errors_removed_at is null;

-- A row that was taken is a duplicate from then on, in whatever file it comes.
create table import_rows (
  client_id int not null,
  event_id uuid not null,
  import_id text not null,
  line int not null,
  created_at date not null default current_date,
  primary key (client_id, event_id)
);
create index import_rows_of on import_rows (import_id, line);

alter table imports enable row level security;
alter table imports force row level security;
create policy tenant on imports to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
-- The importer takes whatever waits.
create policy edge on imports to tributary_edge using (true) with check (true);
create policy keeper on imports to tributary_keeper using (true);
alter table import_rows enable row level security;
alter table import_rows force row level security;
create policy tenant on import_rows to tributary_app, tributary_edge using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy keeper on import_rows to tributary_keeper using (true);
grant select, insert on imports to tributary_app;
grant update (status, mapping, cancel_requested_at, finished_at, lease_until, leased_by, fence, undone_at, error) on imports to tributary_app;
grant select on import_rows to tributary_app;
grant select, insert, update on imports to tributary_edge;
grant select, insert on import_rows to tributary_edge;
grant select, update, delete on imports to tributary_keeper;
grant select, delete on import_rows to tributary_keeper;
