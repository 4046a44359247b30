drop view if exists receipts_of_events
