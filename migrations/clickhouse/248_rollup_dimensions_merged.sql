-- As for rollups.
alter table rollup_dimensions modify setting min_age_to_force_merge_seconds = 1800, min_age_to_force_merge_on_partition_only = 1
