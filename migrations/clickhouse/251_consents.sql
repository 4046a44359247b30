-- Of each device that chose: its latest choice, by event time and then by the place in the log; and the bits that it refuses.
create or replace view consents as
select client_id, did, argMax(mask, (at, log_offset)) as latest, bitXor(latest, 255) as withheld
from (select client_id, did, mask, at, log_offset from consent_changes final)
group by client_id, did
