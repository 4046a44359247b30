-- Every version and copy of an event, for its explanation, as events_current shows the newest one: what is hidden there is not explained either.
create or replace view event_versions as
select e.* replace (
    bitAnd(e.consent, bitNot(refused.withheld)) as consent,
    if(bitTest(refused.withheld, 0), null, e.url) as url,
    if(bitTest(refused.withheld, 0), null, e.ref) as ref,
    if(bitTest(refused.withheld, 0), null, e.ip) as ip,
    if(bitTest(refused.withheld, 0), null, e.ua) as ua,
    if(bitTest(refused.withheld, 0), null, e.region) as region,
    if(bitTest(refused.withheld, 0), null, e.city) as city,
    if(bitTest(refused.withheld, 0), null, e.asn) as asn,
    if(bitAnd(refused.withheld, 3) != 0, null, e.person) as person),
  e.at as at, e.rank as rank
from events as e
left any join (select client_id, did, withheld from consents where bitAnd(withheld, 127) != 0) as refused
  on e.client_id = refused.client_id and e.did = refused.did
where bitTest(bitAnd(e.consent, bitNot(refused.withheld)), 0) or e.t in ('purchase', 'ext_purchase', 'refund', 'lead_submit', 'install')
