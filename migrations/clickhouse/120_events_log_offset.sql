-- Two copies of one event may differ in what depends on their place in the log: a click that came between them. Of two rows of one version the later
-- event is what counts, whichever was written last: a replay may write the earlier one after the later one came. Rows of before have 0.
alter table events add column if not exists log_offset UInt64 comment 'volatile: where the event stands in its partition of events.raw, or its claim in that of claims'
