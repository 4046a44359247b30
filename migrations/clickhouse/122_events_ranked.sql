-- The engine's column cannot be changed, so the rows move into a new table. Everything that writes is stopped while migrations run.
create table if not exists events_ranked as events
engine = ReplacingMergeTree(rank)
partition by toYYYYMM(ts)
order by (client_id, toStartOfHour(ts), event_id)
-- An insert of a second is kept in two files instead of three a column; only what has been merged beyond 128 MiB is laid out by column.
settings non_replicated_deduplication_window = 1000, min_bytes_for_wide_part = 134217728
