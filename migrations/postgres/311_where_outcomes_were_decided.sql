-- The partition on which an event was decided is returned with its outcome, as its `version`, which only values had: a stage that meets the id on another
-- partition records that it came second, since a rebuild may read the partitions in another order. Workers of the release before do not look at it.
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
    select 'outcome', found.event_id, null, null, found.partition::bigint, found.outcome from unnest(event_ids) as wanted (event_id)
      cross join lateral (
        select * from memory_outcome as done where done.stage = of_stage and done.event_id = wanted.event_id limit 1) as found
    union all
    select 'mark', null, null, mark."offset", null, null from memory_mark as mark
      where mark.stage = of_stage and mark.topic = of_topic and mark.partition = of_partition;
end $$;
