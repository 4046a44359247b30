-- Where each claim lies in the topic `claims`, by its order: what a reprocess reads instead of the topic. One row a claim, however often the topic is
-- read. No TTL, as the topic has no end. An order is a number here, so that the index names no one.
create table if not exists claim_positions (
  client_id UInt32,
  order_hash UInt64 comment '48 bits of the SHA-256 of the key of the order',
  log_partition UInt16,
  log_offset UInt64,
  is_conversion Bool,
  received_at DateTime64(3, 'UTC')
)
engine = ReplacingMergeTree
order by (client_id, order_hash, log_partition, log_offset)
settings non_replicated_deduplication_window = 1000
