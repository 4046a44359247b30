-- What dashboards read: the newest version of each event, without second copies of a conversion. Without consent to analytics (bit 0x01) only orders,
-- leads and installs count. An event has one partition, so parts of two months need not be compared.
create or replace view events_current as
select *, at, value
from events final
where merged_into is null and (bitTest(consent, 0) or t in ('purchase', 'ext_purchase', 'refund', 'lead_submit', 'install'))
settings do_not_merge_across_partitions_select_final = 1
