-- Durable memory is read in one call and written in one call: what a batch of ten conversions cost was not its rows but its six statements, each
-- planned anew and waited for. Tables and rows are as before, so workers of before and after this work side by side.

-- These plans are kept, also those that were made while the tables were still empty, when a scan looks cheap: so scans are out of the question, and
-- joins other than by the index.
create function memory_load(of_stage text, keys text[], event_ids text[], of_topic text, of_partition int)
returns table (part text, id text, event_id text, "offset" bigint, version bigint, bytes bytea) language plpgsql stable
set enable_seqscan = off as $$
#variable_conflict use_column
begin
  -- One statement, hence one moment: a value and the outcome that made it are seen together or not at all.
  return query
    select 'state', state.key, state.event_id, state."offset", state.version, state.value from memory_state as state
      where state.stage = of_stage and state.key = any (keys)
    union all
    select 'outcome', done.event_id, null, null, null, done.outcome from memory_outcome as done
      where done.stage = of_stage and done.event_id = any (event_ids)
    union all
    select 'mark', null, null, mark."offset", null, null from memory_mark as mark
      where mark.stage = of_stage and mark.topic = of_topic and mark.partition = of_partition;
end $$;

-- Raises TM001, and so remembers nothing, when a key that was met is at another version by now or an outcome is there already.
create function memory_remember(of_stage text, of_topic text, of_partition int, up_to bigint, met_keys text[], met_versions bigint[],
  outcome_ids text[], outcome_topics text[], outcome_partitions int[], outcome_offsets bigint[], outcomes bytea[],
  keys text[], versions bigint[], event_ids text[], topics text[], partitions int[], offsets bigint[], contents bytea[])
returns void language plpgsql
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
declare
  added bigint;
begin
  -- First, because the row is the lock: keys never leave their partition, so two owners of a partition wait for each other here, and every statement
  -- after it sees all that the other one has committed. The check that follows can then be a plain read.
  insert into memory_mark as mark (stage, topic, partition, "offset") values (of_stage, of_topic, of_partition, up_to)
    on conflict (stage, topic, partition) do update set "offset" = greatest(mark."offset", excluded."offset");
  perform from unnest(met_keys, met_versions) as met (key, version)
    left join memory_state as state on state.stage = of_stage and state.key = met.key
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
