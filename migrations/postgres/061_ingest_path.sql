-- What way events took into the log, by edge: hourly and at each change. Written by edges, of no tenant; kept for 90 days.
create table ingest_path_checks (
  check_id bigint generated always as identity primary key,
  instance text not null,
  state text not null check (state in ('operational', 'primary_down', 'both_down')),
  checked_at timestamptz(3) not null,
  -- What the edge held when it looked.
  waiting_events bigint not null,
  reason text
);
create index ingest_path_newest on ingest_path_checks (instance, checked_at desc);

grant select, insert, delete on ingest_path_checks to tributary_app;
grant select on ingest_path_checks to tributary_keeper;
