-- Nearly all that is remembered of money is new: the outcome of each event, and the first version of most keys. Those rows are only added now, where each
-- was first looked for, twice if it was a key that had been met: when one of them is there already, another owner of the partition was faster, and the
-- key of its table says so. The function of 286, with fewer arguments, stays for workers of the release before, which work beside those of this one.

-- Raises TM001 when a key that was met is at another version by now, or unique_violation when an outcome is there already or a value of a key that was met
-- without one; and so remembers nothing.
create function memory_remember(of_stage text, of_topic text, of_partition int, up_to bigint, met_keys text[], met_versions bigint[],
  outcome_ids text[], outcome_topics text[], outcome_partitions int[], outcome_offsets bigint[], outcomes bytea[],
  new_keys text[], new_versions bigint[], new_event_ids text[], new_topics text[], new_partitions int[], new_offsets bigint[], new_contents bytea[],
  keys text[], versions bigint[], event_ids text[], topics text[], partitions int[], offsets bigint[], contents bytea[])
returns void language plpgsql
set enable_seqscan = off set enable_bitmapscan = off as $$
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
  insert into memory_outcome (stage, event_id, topic, partition, "offset", outcome)
    select of_stage, * from unnest(outcome_ids, outcome_topics, outcome_partitions, outcome_offsets, outcomes);
  insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
    select of_stage, * from unnest(new_keys, new_versions, new_event_ids, new_topics, new_partitions, new_offsets, new_contents);
  if cardinality(keys) > 0 then
    insert into memory_state (stage, key, version, event_id, topic, partition, "offset", value)
      select of_stage, * from unnest(keys, versions, event_ids, topics, partitions, offsets, contents)
      on conflict (stage, key) do update set version = excluded.version, event_id = excluded.event_id, topic = excluded.topic,
        partition = excluded.partition, "offset" = excluded."offset", value = excluded.value;
  end if;
end $$;
