create materialized view if not exists claim_receipts_of_positions to claim_receipts as
select client_id, received_at, order_hash
from claim_positions
where is_conversion
