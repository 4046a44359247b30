-- The events that shape what stages remember of a device: clicks, what names a person, and the decision that an identifier is not its own. They are
-- nearly none of all events; a reprocess reads those of the devices in its window here, instead of a month of the log. What they shape is
-- remembered for 90 days.
create table if not exists device_events (
  client_id UInt32,
  did String,
  ts DateTime64(3, 'UTC'),
  event_id UUID,
  is_click Bool
)
engine = ReplacingMergeTree
order by (client_id, did, ts, event_id)
ttl toDateTime(ts) + interval 90 day
