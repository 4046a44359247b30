-- Minutes whose rollups do not show yet what was stored: written by the analytics sink after its rows, taken by whoever computes rollups. A minute that
-- is touched again gets a higher sequence, so that a mark is cleared only if nothing came since it was read.
create sequence rollup_mark_sequence as bigint;
create table rollup_marks (
  client_id int not null,
  -- By the event's own time, cut to the minute.
  minute timestamptz(3) not null,
  sequence bigint not null,
  -- Since when something of this minute waits: tells how late rollups are.
  marked_at timestamptz(3) not null default clock_timestamp(),
  primary key (client_id, minute)
) with (fillfactor = 50);

alter table rollup_marks enable row level security;
alter table rollup_marks force row level security;
create policy tenant on rollup_marks to tributary_app using (client_id = any (app_clients())) with check (client_id = any (app_clients()));
-- Schedules work for all tenants: the process takes this role on for a transaction.
create policy schedule on rollup_marks to tributary_keeper using (true);
grant select, insert, update on rollup_marks to tributary_app;
grant select, update, delete on rollup_marks to tributary_keeper;
grant usage on sequence rollup_mark_sequence to tributary_app;
