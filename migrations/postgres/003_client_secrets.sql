-- The secret that signs a client's lead pushes, in a table of its own that one role can read. A new secret replaces the old one at once.
create table client_secrets (
  client_id int primary key,
  hmac_secret text not null check (length(hmac_secret) >= 32),
  updated_at timestamptz(3) not null default clock_timestamp()
);
alter table client_secrets enable row level security;
alter table client_secrets force row level security;
grant select, insert, update on client_secrets to tributary_secrets;
create policy tenant on client_secrets to tributary_secrets using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
