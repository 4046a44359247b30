-- Events by one dimension at a time, and who was seen: by hour and day, computed again like `rollups`. An event counts once in each dimension, in
-- those of reasons and warnings once for each of its codes. Visitors are a sketch, so that days add up to a range without counting a visitor twice.
create table if not exists rollup_dimensions (
  client_id UInt32,
  grain Enum8('hour' = 2, 'day' = 3),
  bucket DateTime('UTC') comment 'when it begins; a day is one of America/Mexico_City',
  dimension LowCardinality(String) comment 'all, browser, device, country, region, channel, credit_reason, fraud_reason, warning',
  value String comment 'empty: unknown',
  event_type LowCardinality(String) comment 'the name of a custom event, else t',
  partner_id UInt32 comment '0: no partner is credited',
  currency LowCardinality(String) comment 'empty: an event without one',
  events UInt64,
  conversions UInt64 comment 'purchases, leads and installs, credited or not; second copies are left out',
  revenue_minor Int128 comment 'gross, of purchases, in minor units of currency',
  visitors AggregateFunction(uniqCombined64(14), String) comment 'devices that consented to analytics; within 1 %, exact up to some hundreds',
  version UInt64 comment 'volatile'
)
engine = ReplacingMergeTree(version)
partition by toYYYYMM(bucket)
order by (client_id, grain, bucket, dimension, value, event_type, partner_id, currency)
