-- What became of the events of a request: one row an event, under the request that was the first to bring it. Both columns are extremes of everything
-- that was ever read of the event, so they come out the same in whatever order and however often it is read: a replay changes nothing. An event has
-- the place that it has in `events`; requests are found through the index, an event of which lies in few granules.
create table if not exists receipts (
  client_id UInt32,
  ts DateTime64(3, 'UTC'),
  event_id UUID,
  batch SimpleAggregateFunction(min, FixedString(10)) comment 'the first request; its first 6 bytes are its time in milliseconds, so the smallest is the first',
  fate SimpleAggregateFunction(max, UInt64) comment 'version * 8 + 1 attributed, 2 unattributed, 3 rejected by fraud, 4 second copy of a sale: the newest version wins',
  index by_batch batch type bloom_filter(0.001) granularity 1
)
engine = AggregatingMergeTree
partition by toYYYYMM(ts)
primary key (client_id, toStartOfHour(ts), event_id)
order by (client_id, toStartOfHour(ts), event_id)
ttl fromUnixTimestamp(toUInt32(intDiv(reinterpretAsUInt64(reverse(substring(batch, 1, 6))), 1000))) + interval 32 day
