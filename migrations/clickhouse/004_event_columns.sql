-- What enrichment and scoring add to an event since 0.2. Rows of before have the defaults; reading the log again fills them.
alter table events
  add column if not exists region LowCardinality(Nullable(String)) comment 'part of the country, ISO 3166-2',
  add column if not exists city Nullable(String),
  add column if not exists asn Nullable(UInt32),
  add column if not exists asn_class LowCardinality(String) default 'unknown' comment 'hosting, vpn, isp or unknown',
  add column if not exists person Nullable(String) comment 'keyed hash of the strongest identifier that the device showed',
  add column if not exists hint_address_conversions Nullable(UInt32) comment 'volatile on events that are no claims: read across keys, once',
  add column if not exists hint_click_devices Nullable(UInt32) comment 'volatile on events that are no claims',
  add column if not exists hint_click_country Nullable(String) comment 'volatile on events that are no claims',
  add column if not exists extended_retention Bool alias bitTest(consent, 6) comment 'without it 90 days, unless an order, lead or install'
