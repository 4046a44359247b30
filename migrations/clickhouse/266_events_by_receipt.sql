-- A reprocess asks what was received in its window, and rows lie by the time of the sender. Of a granule, which holds some seconds of a client or an
-- hour of a small one, the receipts lie close together.
alter table events add index if not exists by_receipt received_at type minmax granularity 1
