-- Windows of external sources that are pulled: asked for by the schedule every 15 minutes, or by POST /pull/trigger. The keeper works one off a page at a
-- time; how far it has come stands here, in the same transaction as the rows that were new, so a page that is published and not counted is pulled again.
create table pulls (
  pull_id text primary key,
  client_id int not null,
  source_id int not null,
  -- schedule, or token:<id>.
  actor text not null,
  from_at timestamptz(3) not null,
  to_at timestamptz(3) not null,
  look_back_days int not null default 0,
  state text not null default 'waiting' check (state in ('waiting', 'running', 'done', 'failed')),
  -- Pulled up to here; within the step behind it the source's own cursor.
  done_to timestamptz(3) not null,
  cursor text,
  pages int not null default 0,
  rows bigint not null default 0,
  new bigint not null default 0,
  duplicate bigint not null default 0,
  -- Of persons who were erased.
  withheld bigint not null default 0,
  errors bigint not null default 0,
  -- The first ones, without values of rows.
  faults jsonb not null default '[]',
  -- Requests that failed since the last page.
  failures int not null default 0,
  next_try_at timestamptz(3) not null default clock_timestamp(),
  owner uuid,
  lease_until timestamptz(3),
  created_at timestamptz(3) not null default clock_timestamp(),
  moved_at timestamptz(3),
  ended_at timestamptz(3),
  check (from_at < to_at),
  foreign key (client_id, source_id) references sources (client_id, source_id)
);
create index pulls_open on pulls (next_try_at) where state in ('waiting', 'running');
create index pulls_of_source on pulls (source_id, created_at desc);
create index pulls_ended on pulls (ended_at) where ended_at is not null;
-- Two keepers that look at once ask for one window.
create unique index pulls_scheduled on pulls (source_id) where state in ('waiting', 'running') and actor = 'schedule';

-- The identity of each row that was taken: the same row is no second event, and counts as a duplicate.
create table pulled_rows (
  client_id int not null,
  source_id int not null,
  sale_hash bytea not null check (length(sale_hash) = 32),
  pulled_at timestamptz(3) not null default clock_timestamp(),
  primary key (client_id, source_id, sale_hash)
);
create index pulled_rows_at on pulled_rows (pulled_at);

-- Networks that requests of ours may go to although they are private. Only the owner of the database writes here: who may edit a source may not.
create table outbound_networks (
  network cidr primary key,
  reason text not null,
  created_at timestamptz(3) not null default clock_timestamp()
);
grant select on outbound_networks to tributary_app;

do $$
declare
  name text;
begin
  foreach name in array array['pulls', 'pulled_rows'] loop
    execute format('alter table %I enable row level security', name);
    execute format('alter table %I force row level security', name);
    execute format('create policy tenant on %I to tributary_app using (client_id = any ((select app_clients())::int[]))
      with check (client_id = any ((select app_clients())::int[]))', name);
    execute format('create policy keeper on %I to tributary_keeper using (true) with check (true)', name);
  end loop;
end $$;
grant select on pulls to tributary_app;
grant select, insert, update, delete on pulls to tributary_keeper;
grant select, insert, delete on pulled_rows to tributary_keeper;
grant select on outbound_networks to tributary_keeper;
-- A trigger asks for windows of all sources.
create policy edge on pulls to tributary_edge using (true) with check (true);
grant select, insert on pulls to tributary_edge;
