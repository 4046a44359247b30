-- Moves of the log that were asked for over the platform API: a keeper carries out rewinds and relearns, the replay lane replays. One row each, from
-- the request on; what is done by the command line has none. The audit of both is the topic `operations`, under the same ids.
create table moves (
  operation_id text primary key check (operation_id ~ '^op_[0-9a-f-]{36}$'),
  move text not null check (move in ('rewind', 'relearn', 'replay')),
  -- What no two open moves may touch at once: the consumer group. Of a replay its sinks.
  subject text not null,
  -- As it was asked for, and what the plan of it said.
  request jsonb not null,
  plan jsonb not null,
  -- Of the token by which the plan was taken: each is good for one move.
  plan_id uuid not null unique,
  actor text not null,
  status text not null default 'queued' check (status in ('queued', 'running', 'completed', 'failed', 'refused')),
  -- Records read again, and all of them; null until they are counted.
  done bigint not null default 0,
  total bigint,
  -- The newest step, and what came of it.
  step text,
  verdict text,
  -- The group is held for it: a row without its hold was released by hand.
  is_held boolean not null default false,
  replay_id text references replays,
  created_at timestamptz(3) not null default clock_timestamp(),
  started_at timestamptz(3),
  finished_at timestamptz(3),
  fence bigint not null default 0,
  leased_by text,
  lease_until timestamptz(3)
);
create unique index moves_open on moves (subject) where status in ('queued', 'running') and replay_id is null;
create index moves_newest on moves (created_at desc, operation_id desc);
-- They belong to no client: the operator's own.
grant select, insert, update on moves to tributary_keeper;
grant select on replays to tributary_keeper;

-- A mail is forgotten when no one asks for it any more.
grant delete on mails to tributary_tokens;
