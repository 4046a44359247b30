-- What is read: the same events as far as each device lets itself be seen today. `consent` is what is left of the mask: a choice takes from the past, and
-- gives back what a choice took; it opens nothing that an event came without.
create or replace view events_current as
select * except (withheld) replace (
    bitAnd(consent, bitNot(withheld)) as consent,
    if(bitTest(withheld, 0), null, url) as url,
    if(bitTest(withheld, 0), null, ref) as ref,
    if(bitTest(withheld, 0), null, ip) as ip,
    if(bitTest(withheld, 0), null, ua) as ua,
    if(bitTest(withheld, 0), null, region) as region,
    if(bitTest(withheld, 0), null, city) as city,
    if(bitTest(withheld, 0), null, asn) as asn,
    if(bitAnd(withheld, 3) != 0, null, person) as person),
  toBool(bitTest(bitAnd(events_decided.consent, bitNot(withheld)), 6)) as extended_retention
from events_decided
