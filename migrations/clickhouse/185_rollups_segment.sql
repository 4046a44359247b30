-- Sales by product line: a group of its own inside a bucket. Rows of before have none until their hours are computed again (rollups.revision).
alter table rollups
  add column if not exists segment LowCardinality(String) comment 'product line; empty: none',
  modify order by (client_id, grain, bucket, event_type, source, partner_id, campaign_id, country, device, currency, segment)
