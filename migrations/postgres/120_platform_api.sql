-- What the platform API writes beside the business rows, in their transaction: who did what, what was answered to a key, and work that outlives a
-- request.

-- Insert-only by grant, kept for good. Rows of no client are the operator's own: they count as client 0, which is in the scope of those who see all.
create table audit (
  audit_id bigint primary key generated always as identity,
  at timestamptz(3) not null default clock_timestamp(),
  -- The e-mail address of the user, or what acted in its place, e.g. keeper.
  actor text not null check (actor <> ''),
  role text not null check (role <> ''),
  action text not null check (action ~ '^[a-z_]+\.[a-z_]+$'),
  client_id int check (client_id > 0),
  -- kind:id, e.g. client:7
  entity text not null check (entity <> ''),
  -- Secrets and personal data are redacted before they come here.
  before jsonb,
  after jsonb,
  request_id text not null,
  ip text
);
create index audit_newest on audit (at desc, audit_id desc);
create index audit_client on audit (client_id, at desc, audit_id desc);
create index audit_entity on audit (entity, at desc);

alter table audit enable row level security;
alter table audit force row level security;
create policy tenant on audit for select to tributary_app using (coalesce(client_id, 0) = any (app_clients()));
create policy written on audit for insert to tributary_app with check (client_id is null or client_id = any (app_clients()));
grant select, insert on audit to tributary_app;

-- The first answer to a key of a caller, written with what it did; forgotten after 7 days.
create table idempotency_keys (
  owner text not null,
  key text not null check (length(key) between 1 and 128),
  -- SHA-256 of method, path and body.
  request bytea not null check (length(request) = 32),
  status int,
  headers jsonb,
  answer text,
  created_at timestamptz(3) not null default clock_timestamp(),
  primary key (owner, key)
);
create index idempotency_keys_age on idempotency_keys (created_at);
grant select, insert, update (status, headers, answer) on idempotency_keys to tributary_app;
grant select, delete on idempotency_keys to tributary_keeper;

-- Work that outlives its request. One process has the lease; each that takes a job raises its fence, and writes of a lower fence are refused.
create table jobs (
  job_id text primary key check (job_id ~ '^job_[0-9a-f-]{36}$'),
  kind text not null check (kind in ('backfill', 'import_undo', 'webhook_resend')),
  client_id int not null,
  status text not null default 'queued' check (status in ('queued', 'running', 'completed', 'failed')),
  -- The same work asked for twice is one job.
  key text not null,
  input jsonb not null,
  done int not null default 0 check (done >= 0),
  total int check (total >= 0),
  result jsonb,
  error text,
  created_by text not null,
  created_at timestamptz(3) not null default clock_timestamp(),
  finished_at timestamptz(3) check ((finished_at is not null) = (status in ('completed', 'failed'))),
  attempts int not null default 0,
  fence bigint not null default 0,
  leased_by text,
  lease_until timestamptz(3) check ((lease_until is not null) = (status = 'running')),
  unique (client_id, kind, key)
) with (fillfactor = 70);
create index jobs_open on jobs (created_at) where status in ('queued', 'running');
create index jobs_newest on jobs (client_id, created_at desc, job_id);

alter table jobs enable row level security;
alter table jobs force row level security;
create policy tenant on jobs to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
create policy schedule on jobs to tributary_keeper using (true) with check (true);
grant select, insert on jobs to tributary_app;
grant select, update, delete on jobs to tributary_keeper;

-- Sales of a client in a range of days.
create index product_sales_when on product_sales (client_id, occurred_at);

-- The first letters of a token, by which people tell tokens apart; of those made before it is not known.
alter table tokens add column prefix text;
