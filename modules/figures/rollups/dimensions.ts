// Computes the dimensions of hours from the events that count, then of the days that contain them.
import { HOUR, type HourOf, listed, secondsOf, tuples } from "./hours.ts";
import type { RollupHour } from "./rollup-marks.ts";
import { dimensionColumns, dimensionGroups } from "./table.ts";

const groups = dimensionGroups.join(", ");
const target = `insert into rollup_dimensions (${dimensionColumns.map(({ name }) => name).join(", ")})`;
const merged = "uniqCombined64MergeState(14)(visitors)";

const SEARCH = "(^|\\\\.)(google|bing|duckduckgo|yahoo|yandex|baidu|ecosia|qwant|startpage)\\\\.";
const SOCIAL =
  "(^|\\\\.)(facebook|instagram|tiktok|twitter|pinterest|linkedin|reddit|youtube|whatsapp|snapchat|threads|" +
  "telegram)\\\\." +
  "|^(t\\\\.co|x\\\\.com|t\\\\.me|fb\\\\.me|lnkd\\\\.in|youtu\\\\.be|wa\\\\.me)$";
/** The channel of a visit; `internal` means a referrer on the same host. */
const channel = `multiIf(click_id is not null or link_id is not null, 'link',
  match(ifNull(url, ''), '[?&]utm_(source|medium|campaign)=[^&#]'), 'campaign',
  ifNull(ref, '') = '', 'direct',
  domainWithoutWWW(ref) = domainWithoutWWW(ifNull(url, '')), 'internal',
  match(lower(domainWithoutWWW(ref)), '${SEARCH}'), 'search',
  match(lower(domainWithoutWWW(ref)), '${SOCIAL}'), 'social',
  'referral')`;

/** An event has one value of each dimension, except `fraud_reasons` and `warnings`. */
const found = ["browser", "device", "country", "region", "channel", "credit_reason", "fraud_reasons", "warnings"];

const dimensionsOf = `arrayJoin(arrayConcat(
  [('all', ''), ('browser', ifNull(browser, '')), ('device', toString(device)), ('country', ifNull(country, '')),
    ('region', if(region is null, '', concat(ifNull(country, ''), '-', region))), ('channel', channel)],
  if(credit_reason is null, [], [('credit_reason', ifNull(credit_reason, ''))]),
  arrayMap(reason -> ('fraud_reason', JSONExtractString(reason, 'code')), JSONExtractArrayRaw(fraud_reasons)),
  arrayMap(code -> ('warning', code), arrayDistinct(warnings))))`;

/**
 * Counts events that are equal in every column first, and then counts each group in every
 * dimension. So seven rows are made for each group instead of for each event.
 */
const alike = (listedHours: readonly HourOf[]): string => `
  select client_id, toStartOfHour(ts) as bucket, coalesce(custom_name, t) as event_type,
    ifNull(partner_id, 0) as partner_id, ifNull(currency, '') as currency,
    ${found.map((name) => (name === "channel" ? `${channel} as channel` : name)).join(", ")},
    count() as events,
    countIf(t in ('purchase', 'ext_purchase', 'lead_submit', 'install')) as conversions,
    sumIf(toInt128(ifNull(value_minor, 0)), t in ('purchase', 'ext_purchase')) as revenue_minor,
    uniqCombined64StateIf(14)(did, bitTest(consent, 0)) as visitors
  from events_current
  where (client_id, toStartOfHour(ts)) in (${tuples(listedHours)})
  group by client_id, bucket, event_type, partner_id, currency, ${found.join(", ")}`;

/**
 * Writes a group that has become empty with zeros, under a version that replaces its former row.
 */
const hours = (given: readonly RollupHour[], listedHours: readonly HourOf[]): string => `${target}
with marked as (
  select * from values('client_id UInt32, bucket DateTime(\\'UTC\\'), version UInt64',
    ${tuples(given.map(({ client_id, hour, sequence }) => [client_id, secondsOf(hour), sequence]))})
)
select client_id, 'hour', bucket, ${groups}, sum(events), sum(conversions), sum(revenue_minor), ${merged},
  any(marked.version)
from (
  select client_id, bucket, one.1 as dimension, one.2 as value, event_type, partner_id, currency,
    events, conversions, revenue_minor, visitors
  from (select *, ${dimensionsOf} as one from (${alike(listedHours)}))
  union all
  select client_id, bucket, ${groups}, 0, 0, 0, arrayReduce('uniqCombined64State(14)', emptyArrayString())
  from rollup_dimensions final
  where grain = 'hour' and (client_id, bucket) in (${tuples(listedHours)})
) as counted
inner join marked using (client_id, bucket)
group by client_id, bucket, ${groups}`;

// A day on which clocks are set back has 25 hours.
const days = (touched: readonly HourOf[]): string => `${target}
select client_id, 'day', toStartOfDay(bucket, 'America/Mexico_City') as day, ${groups}, sum(events), sum(conversions),
  sum(revenue_minor), ${merged}, max(version)
from rollup_dimensions final
where grain = 'hour' and (client_id, bucket) in (${listed(touched, -25 * HOUR, 26 * HOUR, HOUR)})
  and (client_id, day) in (select c, toStartOfDay(h, 'America/Mexico_City') from
    values('c UInt32, h DateTime(\\'UTC\\')', ${tuples(touched)}))
group by client_id, day, ${groups}`;

/** Returns the statements for these hours, in order. Each hour is counted again from its events. */
export const computeDimensions = (given: readonly RollupHour[]): readonly string[] => {
  const touched = given.map(({ client_id, hour }): HourOf => [client_id, secondsOf(hour)]);
  return [hours(given, touched), days(touched)];
};
