-- What the nightly pass over distributions calls a finding, set per client; rows of before get what a new client starts with (docs/fraud.md).
alter table clients add column fraud_nightly jsonb not null
  default '{"flood_clicks": 10000, "flood_conversions_ppm": 100, "flat_sample": 100, "flat_distance": 0.15}';
