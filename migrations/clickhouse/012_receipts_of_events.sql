-- Fed by the inserts of `events` themselves, so that no reader of the log costs more. Not a sum: what comes twice is there once.
create materialized view if not exists receipts_of_events to receipts as
select client_id, ts, event_id, toFixedString(unhex(assumeNotNull(batch_id)), 10) as batch,
  toUInt64(version) * 8 + multiIf(isNotNull(merged_into), 4, credit_reason = 'fraud_rejected', 3, credit_status = 'attributed', 1, 2) as fate
from events
where length(batch_id) = 20
