-- Every explicit choice of a device, one row an event that brought it: proof, and what each read asks for the latest one. Both times are extremes of
-- everything that was ever read of the event, so a change that comes again, late or out of order leaves the table as if it had come once. No TTL:
-- while its events are kept, so is what they may be read for.
create table if not exists consent_changes (
  client_id UInt32,
  did String,
  event_id UUID,
  mask UInt8 comment 'as chosen, less what the privacy signals of the browser turned off',
  at SimpleAggregateFunction(min, DateTime64(3, 'UTC')) comment 'event time of the first receipt',
  log_offset SimpleAggregateFunction(min, UInt64) comment 'volatile: of two changes at one moment the later in the log counts'
)
engine = AggregatingMergeTree
order by (client_id, did, event_id, mask)
settings non_replicated_deduplication_window = 1000
