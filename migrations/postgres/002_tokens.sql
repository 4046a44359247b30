-- Opaque tokens, kept as SHA-256 alone. A token is looked up before any tenant is known and some belong to none, so they are worked on under a role of
-- their own; the application role sees those of its tenants and changes nothing.
create sequence token_revisions as int;
create table tokens (
  token_id int primary key generated always as identity,
  kind text not null check (kind in ('ingest', 'admin', 'upload', 'service')),
  sha256 bytea not null unique check (length(sha256) = 32),
  client_id int,
  partner_id int,
  -- Sent by the visitor's own browser or app, so address and user agent of the request are the visitor's.
  client_side boolean not null default false,
  label text not null,
  -- Grows with every change; writers hold one advisory lock, so its order is commit order and a poll for what is newer misses nothing.
  revision int not null unique,
  created_at timestamptz(3) not null default clock_timestamp(),
  last_used_at timestamptz(3),
  revoked_at timestamptz(3),
  check ((kind = 'ingest') = (client_id is not null)),
  check ((kind = 'upload') = (partner_id is not null))
);
create unique index tokens_upload on tokens (partner_id) where kind = 'upload' and revoked_at is null;

alter table tokens enable row level security;
alter table tokens force row level security;
grant select on tokens to tributary_app;
grant select, insert, update (last_used_at, revoked_at, revision) on tokens to tributary_tokens;
grant usage on sequence token_revisions to tributary_tokens;
create policy tenant on tokens for select to tributary_app using (client_id = any (app_clients()));
create policy everything on tokens to tributary_tokens using (true) with check (true);
