-- The same view with the name above: a view keeps the list of columns that it was made with.
create or replace view events_current as
select *, at, value, extended_retention, _version
from events final
where merged_into is null and (bitTest(consent, 0) or t in ('purchase', 'ext_purchase', 'refund', 'lead_submit', 'install'))
settings do_not_merge_across_partitions_select_final = 1
