-- The functions of 285 find each key by itself. Given a list of keys, the planner may read all of a stage's rows and compare, which looks as good
-- while the tables are empty, and a plan that is kept would still do so when they are full: 2.2 ms a conversion at 20,000 rows. A query of its own for
-- each key, as `limit` makes it, has no plan but the key's index.
create or replace function memory_load(of_stage text, keys text[], event_ids text[], of_topic text, of_partition int)
returns table (part text, id text, event_id text, "offset" bigint, version bigint, bytes bytea) language plpgsql stable
set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  -- One statement, hence one moment: a value and the outcome that made it are seen together or not at all.
  return query
    select 'state', found.key, found.event_id, found."offset", found.version, found.value from unnest(keys) as wanted (key)
      cross join lateral (select * from memory_state as state where state.stage = of_stage and state.key = wanted.key limit 1) as found
    union all
    select 'outcome', found.event_id, null, null, null, found.outcome from unnest(event_ids) as wanted (event_id)
      cross join lateral (
        select * from memory_outcome as done where done.stage = of_stage and done.event_id = wanted.event_id limit 1) as found
    union all
    select 'mark', null, null, mark."offset", null, null from memory_mark as mark
      where mark.stage = of_stage and mark.topic = of_topic and mark.partition = of_partition;
end $$;

-- Raises TM001, and so remembers nothing, when a key that was met is at another version by now or an outcome is there already.
create or replace function memory_remember(of_stage text, of_topic text, of_partition int, up_to bigint, met_keys text[], met_versions bigint[],
  outcome_ids text[], outcome_topics text[], outcome_partitions int[], outcome_offsets bigint[], outcomes bytea[],
  keys text[], versions bigint[], event_ids text[], topics text[], partitions int[], offsets bigint[], contents bytea[])
returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  added bigint;
begin
  -- First, because the row is the lock: keys never leave their partition, so two owners of a partition wait for each other here, and every statement
  -- after it sees all that the other one has committed. The check that follows can then be a plain read.
  insert into memory_mark as mark (stage, topic, partition, "offset") values (of_stage, of_topic, of_partition, up_to)
    on conflict (stage, topic, partition) do update set "offset" = greatest(mark."offset", excluded."offset");
  perform from unnest(met_keys, met_versions) as met (key, version)
    left join lateral (select * from memory_state as state where state.stage = of_stage and state.key = met.key limit 1) as state on true
    where coalesce(state.version, 0) <> met.version limit 1;
  if found then
    raise exception 'a key that % met has moved', of_stage using errcode = 'TM001';
  end if;
  if cardinality(outcome_ids) > 0 then
    insert into memory_outcome (stage, event_id, topic, partition, "offset", outcome)
      select of_stage, * from unnest(outcome_ids, outcome_topics, outcome_partitions, outcome_offsets, outcomes)
      on conflict (stage, event_id) do nothing;
    get diagnostics added = row_count;
    if added <> cardinality(outcome_ids) then
      raise exception 'an event that % met was decided already', of_stage using errcode = 'TM001';
    end if;
  end if;
  if cardinality(keys) > 0 then
    insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
      select of_stage, * from unnest(keys, versions, event_ids, topics, partitions, offsets, contents)
      on conflict (stage, key) do update set version = excluded.version, event_id = excluded.event_id, topic = excluded.topic,
        partition = excluded.partition, "offset" = excluded."offset", value = excluded.value;
  end if;
end $$;
