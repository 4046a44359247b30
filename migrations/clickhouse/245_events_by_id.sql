-- An explanation, an order and a refund ask for events by their ids alone: without an index each asks every row of two years. Four granules in a
-- hundred are read in vain, and the index of a hundred million events is 100 MB; second copies are few, and so is what their index holds.
alter table events
  add index if not exists by_event event_id type bloom_filter(0.04) granularity 1,
  add index if not exists by_first merged_into type bloom_filter(0.04) granularity 1
