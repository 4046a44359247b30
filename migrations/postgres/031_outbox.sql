-- What the log has to hear of a change, written in the transaction of the change: both are there or neither. The relay (sinks/postgres/outbox.ts) takes
-- rows of transactions that are older than every open one, so that a lower id which commits late is not sent behind a higher one.
create table outbox (
  outbox_id bigint generated always as identity primary key,
  written_by xid8 not null default pg_current_xact_id(),
  written_at timestamptz(3) not null default clock_timestamp(),
  -- Stays the same however often the row is sent.
  event_id uuid not null default gen_random_uuid(),
  topic text not null check (topic in ('reference.changes', 'domain.changes')),
  -- Whom it concerns; null: no client in particular.
  client_id int,
  record jsonb not null,
  sent_at timestamptz(3)
);
create index outbox_waiting on outbox (outbox_id) where sent_at is null;
create index outbox_sent on outbox (sent_at) where sent_at is not null;

alter table outbox enable row level security;
alter table outbox force row level security;
-- Whoever writes a change adds to it and reads nothing back.
create policy tenant on outbox for insert to tributary_app with check (client_id is null or client_id = any (app_clients()));
create policy schedule on outbox to tributary_keeper using (true);
grant insert on outbox to tributary_app;
grant select, delete, update (sent_at) on outbox to tributary_keeper;
