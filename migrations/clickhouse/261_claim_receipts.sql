-- The orders that had a conversion received in a time: the same rows in the order of their receipt, and of conversions alone.
create table if not exists claim_receipts (
  client_id UInt32,
  received_at DateTime64(3, 'UTC'),
  order_hash UInt64
)
engine = ReplacingMergeTree
order by (client_id, received_at, order_hash)
