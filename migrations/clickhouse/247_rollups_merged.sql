-- A month that nothing was written to for half an hour becomes one part, of which a reading with FINAL has nothing to merge: a year of days costs a
-- quarter (84 to 22 ms of CPU, 131,000 rows). The month that is being written is left to the usual merges.
alter table rollups modify setting min_age_to_force_merge_seconds = 1800, min_age_to_force_merge_on_partition_only = 1
