-- The newest version of each event with the bits that its device withholds today, as it is stored: what credit is decided from, which is a contract and
-- stands without consent. Second copies are left out, and so is what was seen by a device that refuses analytics (bit 0x01). Reads show events_current.
create or replace view events_decided as
select e.*, e.at as at, e.value as value, e._version as _version, refused.withheld as withheld
from events as e final
left any join (select client_id, did, withheld from consents where bitAnd(withheld, 127) != 0) as refused
  on e.client_id = refused.client_id and e.did = refused.did
where e.merged_into is null
  and (bitTest(bitAnd(e.consent, bitNot(refused.withheld)), 0) or e.t in ('purchase', 'ext_purchase', 'refund', 'lead_submit', 'install'))
settings do_not_merge_across_partitions_select_final = 1
