-- Files that are sent in parts: what was promised of each, and which of its parts are stored. The import of a file begins with it, as pending_upload.
create table uploads (
  upload_id text primary key check (upload_id ~ '^upl_[0-9a-f-]{36}$'),
  client_id int not null,
  import_id text not null unique,
  size bigint not null check (size between 1 and 5368709120),
  -- Of the whole file, where its sender has named it.
  sha256 text check (sha256 ~ '^[0-9a-f]{64}$'),
  -- Of the token that stores its parts, which is made again from this seed and kept nowhere.
  seed uuid not null,
  token_sha256 bytea not null check (length(token_sha256) = 32),
  created_at timestamptz(3) not null default clock_timestamp(),
  completed_at timestamptz(3)
);
create index uploads_age on uploads (created_at);
create table upload_parts (
  upload_id text not null,
  part int not null check (part >= 1),
  client_id int not null,
  sha256 text not null check (sha256 ~ '^[0-9a-f]{64}$'),
  bytes int not null check (bytes > 0),
  -- Null: it is on its way. Its bytes are settled by then, so that two senders of one part cannot mix.
  stored_at timestamptz(3),
  primary key (upload_id, part)
);

alter table uploads enable row level security;
alter table uploads force row level security;
create policy tenant on uploads to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy edge on uploads for select to tributary_edge using (true);
create policy keeper on uploads to tributary_keeper using (true);
alter table upload_parts enable row level security;
alter table upload_parts force row level security;
create policy tenant on upload_parts for select to tributary_app using (client_id = any (app_clients()));
create policy edge on upload_parts to tributary_edge using (true) with check (true);
create policy keeper on upload_parts to tributary_keeper using (true);
grant select, insert, update (completed_at) on uploads to tributary_app;
grant select on upload_parts to tributary_app;
grant select on uploads to tributary_edge;
grant select, insert, update (stored_at) on upload_parts to tributary_edge;
grant select, delete on uploads, upload_parts to tributary_keeper;
grant update (parts, bytes) on imports to tributary_app;
-- Rows that were claimed and never counted are free again when their import ends.
grant delete on import_rows to tributary_app, tributary_edge;
