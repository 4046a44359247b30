-- How a command stops the workers of a consumer group wherever they run: each asks about once a second for the groups that it hosts, and leaves those
-- that are held. One row a group, from before it is left until what the command wanted is done; a command that dies leaves it, and goes on from it.
create table group_holds (
  group_name text primary key,
  operation_id text not null unique,
  kind text not null check (kind in ('rewind', 'relearn', 'reprocess')),
  actor text not null,
  reason text,
  since timestamptz(3) not null default clock_timestamp(),
  -- Of a rewind: what was wanted, and of each partition the offset that was committed when the group had been left, and the one it goes back to.
  plan jsonb,
  -- Since when workers may join again; the row stays until the group has caught up with the offsets in `plan`.
  released_at timestamptz(3)
);

-- What workers host: written when they join, so that a command finds the group of a stage that is fused behind another.
create table group_hosting (
  group_name text primary key,
  topic text not null,
  -- In the order of the chain.
  nodes text[] not null check (cardinality(nodes) > 0),
  instance text not null,
  joined_at timestamptz(3) not null default clock_timestamp()
);

grant select, insert, update, delete on group_holds, group_hosting to tributary_app;
