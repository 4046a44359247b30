-- What the keeper writes and reads back every minute: one row a keeper.
create table if not exists probe (
  instance String,
  value String,
  written_at DateTime64(3, 'UTC')
) engine = ReplacingMergeTree(written_at) order by instance
