-- What dashboards read: events counted by minute, hour and day, one row a group. Never added to: each row is computed anew from `events_current`
-- (minutes) or from the finer grain (hours, days), and the newest computation wins, so a replay cannot count twice. `version` is the sequence of the
-- mark that asked for it. A group whose last event moved elsewhere stays as a row of zeros. Read it with FINAL (sinks/clickhouse/query.ts does).
create table if not exists rollups (
  client_id UInt32,
  grain Enum8('minute' = 1, 'hour' = 2, 'day' = 3),
  bucket DateTime('UTC') comment 'when it begins; a day is one of America/Mexico_City',
  event_type LowCardinality(String) comment 'the name of a custom event, else t',
  source LowCardinality(String),
  partner_id UInt32 comment '0: nobody is credited',
  campaign_id UInt32 comment '0: none',
  country LowCardinality(String) comment 'empty: unknown',
  device LowCardinality(String),
  currency LowCardinality(String) comment 'empty: an event without one',
  events UInt64,
  clicks UInt64,
  conversions UInt64 comment 'purchases, leads and installs, credited or not; second copies are left out',
  unattributed UInt64 comment 'conversions that nobody is credited for',
  revenue_minor Int128 comment 'gross, of purchases, in minor units of currency; wide enough for a sum of 64-bit amounts',
  review UInt64 comment 'events in the fraud band review',
  rejected UInt64 comment 'events in the fraud band reject',
  version UInt64 comment 'volatile'
)
engine = ReplacingMergeTree(version)
partition by toYYYYMM(bucket)
order by (client_id, grain, bucket, event_type, source, partner_id, campaign_id, country, device, currency)
