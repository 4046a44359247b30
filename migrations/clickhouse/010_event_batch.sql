-- Which request brought an event, for its receipt: 20 hex digits that begin with the time. Of an event that was sent again it is that of the last reading.
alter table events add column if not exists batch_id Nullable(String) comment 'volatile'
