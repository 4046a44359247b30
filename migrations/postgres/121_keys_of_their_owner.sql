-- A kept answer holds what its caller was shown: a transaction sees the keys of the owner that it names, and no others.
alter table idempotency_keys enable row level security;
alter table idempotency_keys force row level security;
create policy owned on idempotency_keys to tributary_app
  using (owner = current_setting('app.owner', true)) with check (owner = current_setting('app.owner', true));
create policy schedule on idempotency_keys to tributary_keeper using (true);
