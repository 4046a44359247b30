-- Windows of the log that are, or were, written to the stores again. One lane works them off in the order of their coming; its position and what it
-- counted move in one statement, so that a lane which is killed and goes on counts nothing twice.
create table replays (
  replay_id text primary key check (replay_id ~ '^rpl_[0-9a-f-]{36}$'),
  state text not null default 'waiting' check (state in ('waiting', 'running', 'done', 'failed', 'cancelled')),
  actor text not null check (actor <> ''),
  -- As it was asked for, where it was asked for in hours.
  hours int check (hours > 0),
  from_at timestamptz(3) not null,
  -- Null: up to what the log holds when the lane begins.
  to_at timestamptz(3) check (to_at > from_at),
  -- Names of sinks.
  sinks text[] not null check (cardinality(sinks) > 0),
  -- Where the lane stood when this was asked for: what it has written since need not be written again. {"<replay_id>": {"<topic>-<partition>": offset}}
  met jsonb not null default '{}',
  -- Decided when the lane begins and never after: [{topic, partition, start, end, skip_from, skip_to}]
  ranges jsonb,
  -- {"<topic>-<partition>": offset}; what is not there stands at its start.
  positions jsonb not null default '{}',
  requeued bigint not null default 0,
  skipped bigint not null default 0,
  suppressed bigint not null default 0,
  refused bigint not null default 0,
  -- [{file, message}], one for each segment and reason.
  errors jsonb not null default '[]',
  attempts int not null default 0,
  -- Of the process that works on it, and until when nobody else may.
  owner text,
  lease_until timestamptz(3),
  created_at timestamptz(3) not null default clock_timestamp(),
  started_at timestamptz(3),
  moved_at timestamptz(3),
  ended_at timestamptz(3)
) with (fillfactor = 50);
create index replays_open on replays (created_at) where state in ('waiting', 'running');

-- Of no tenant: it names positions in the log and no event. Rows are kept: they say what was written again, when, and for whom.
grant select, insert, update on replays to tributary_app;
