-- Durable memory of the stages that decide money (stream/memory/postgres.ts). Written by workers alone, whatever the tenant, and read by no request:
-- keys begin with the client they belong to, and no row-level policy stands in the way of a batch that holds many clients.

-- The newest value of each key. `version` counts its changes: whoever meets one version and finds another when remembering has decided on something else.
create table memory_state (
  stage text not null,
  key text not null,
  version bigint not null check (version > 0),
  event_id text not null,
  topic text not null,
  partition int not null,
  "offset" bigint not null,
  value bytea not null,
  primary key (stage, key)
) with (fillfactor = 80);

-- What became of each event: the very messages that were produced for it. Rows are never changed, and live as long as the ledger.
create table memory_outcome (
  stage text not null,
  event_id text not null,
  topic text not null,
  partition int not null,
  "offset" bigint not null,
  outcome bytea not null,
  primary key (stage, event_id)
);

-- How far each partition was remembered. The row is also the lock that owners of one partition wait for.
create table memory_mark (
  stage text not null,
  topic text not null,
  partition int not null,
  "offset" bigint not null check ("offset" >= 0),
  primary key (stage, topic, partition)
) with (fillfactor = 50);

grant select, insert, update on memory_state, memory_mark to tributary_app;
grant select, insert on memory_outcome to tributary_app;
