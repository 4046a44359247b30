// Computes minutes again from the events that count, then the hours and days that contain them.
// Groups that became empty turn into zeros. Counts that need a whole hour are computed in a
// separate turn.

import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { computeDimensions } from "./dimensions.ts";
import { HOUR, type HourOf, hourOf, hoursOf, listed, secondsOf, tuples, withNext } from "./hours.ts";
import type { RollupHour, RollupMark } from "./rollup-marks.ts";
import { ROLLUP_REVISION, rollupColumns, rollupCounts, rollupGroups } from "./table.ts";

const groups = rollupGroups.join(", ");
const sums = rollupCounts.map((name) => `sum(${name})`).join(", ");
const zeros = rollupCounts.map((name) => `0 as ${name}`).join(", ");
const target = `insert into rollups (${rollupColumns.map(({ name }) => name).join(", ")})`;

/** The columns by which events are grouped. */
const groupOf = `coalesce(custom_name, t) as event_type, source, ifNull(partner_id, 0) as partner_id,
    ifNull(campaign_id, 0) as campaign_id, ifNull(country, '') as country, device, ifNull(currency, '') as currency,
    ifNull(product_line, '') as segment`;

/**
 * Reads whole client hours, the prefix of the sort key of `events`, and counts all marked minutes
 * of an hour in one pass. Existing groups are added with zeros, so that a group without events gets
 * zeros.
 */
const minutes = (marks: readonly RollupMark[], hours: readonly HourOf[]): string => `${target}
with marks as (
  select * from values('client_id UInt32, bucket DateTime(\\'UTC\\'), version UInt64',
    ${tuples(marks.map(({ client_id, minute, sequence }) => [client_id, secondsOf(minute), sequence]))})
)
select client_id, 'minute', bucket, ${groups}, ${sums}, any(marks.version), ${ROLLUP_REVISION}
from (
  select client_id, toStartOfMinute(ts) as bucket, ${groupOf},
    count() as events,
    countIf(t = 'click') as clicks,
    countIf(t in ('purchase', 'ext_purchase', 'lead_submit', 'install')) as conversions,
    countIf(t in ('purchase', 'ext_purchase', 'lead_submit', 'install')
      and credit_status = 'unattributed') as unattributed,
    sumIf(toInt128(ifNull(value_minor, 0)), t in ('purchase', 'ext_purchase')) as revenue_minor,
    countIf(fraud_band = 'review') as review,
    countIf(fraud_band = 'reject') as rejected,
    0 as repeats
  from events_current
  where (client_id, toStartOfHour(ts)) in (${tuples(hours)})
  and (client_id, toStartOfMinute(ts)) in (select client_id, bucket from marks)
  group by client_id, bucket, ${groups}
  union all
  select client_id, bucket, ${groups}, ${zeros}
  from rollups final
  where grain = 'minute' and (client_id, bucket) in (select client_id, bucket from marks)
) as counted
inner join marks using (client_id, bucket)
group by client_id, bucket, ${groups}`;

/**
 * Finds repeated clicks: on one link from one address and browser, each less than an hour after the
 * one before. A click that lacks one of the three repeats nothing. Clicks that the pixel saw on a
 * page may be signals only, so they make no other click a repeat.
 */
const repeats = (hours: readonly HourOf[]): string => `
  select client_id, toStartOfHour(ts) as hour, ${groups},
    ${rollupCounts.map((name) => (name === "repeats" ? "count() as repeats" : `0 as ${name}`)).join(", ")}, 0 as version
  from (
    select client_id, ts, ${groupOf},
      lagInFrame(ts) over (partition by client_id, link_id, ip, ua, source = 'pixel' order by ts, event_id
        rows between 1 preceding and current row) as before
    from events_current
    where (client_id, toStartOfHour(ts)) in (${listed(hours, -HOUR, HOUR, HOUR)})
    and t = 'click' and link_id is not null and ip is not null and ua is not null
  )
  where ts < before + interval 1 hour and (client_id, toStartOfHour(ts)) in (${tuples(hours)})
  group by client_id, hour, ${groups}`;

/** Reads the repeats of the last count of the whole hour. */
const repeatsOfBefore = (hours: readonly HourOf[]): string => `
  select client_id, bucket as hour, ${groups},
    ${rollupCounts.map((name) => (name === "repeats" ? name : `0 as ${name}`)).join(", ")}, version
  from rollups final
  where grain = 'hour' and repeats > 0 and (client_id, bucket) in (${tuples(hours)})`;

const hoursAbove = (hours: readonly HourOf[], repeatsOf: (hours: readonly HourOf[]) => string): string => `${target}
select client_id, 'hour', hour, ${groups}, ${sums}, max(version), ${ROLLUP_REVISION}
from (
  select client_id, toStartOfHour(bucket) as hour, ${groups}, ${rollupCounts.join(", ")}, version
  from rollups final
  where grain = 'minute' and (client_id, bucket) in (${listed(hours, 0, HOUR, 60)})
  union all${repeatsOf(hours)}
)
group by client_id, hour, ${groups}`;

// A day on which clocks are set back has 25 hours.
const daysAbove = (hours: readonly HourOf[]): string => `${target}
select client_id, 'day', toStartOfDay(bucket, 'America/Mexico_City') as day, ${groups}, ${sums}, max(version),
  ${ROLLUP_REVISION}
from rollups final
where grain = 'hour' and (client_id, bucket) in (${listed(hours, -25 * HOUR, 26 * HOUR, HOUR)})
  and (client_id, day) in (select c, toStartOfDay(h, 'America/Mexico_City') from
    values('c UInt32, h DateTime(\\'UTC\\')', ${tuples(hours)}))
group by client_id, day, ${groups}`;

/**
 * The text contains ids, times and sequences as numbers, so nothing can be injected. A list of
 * thousands exceeds the parser's default limit. Runs on one thread at low priority: figures may be
 * some seconds older, an insert may not wait.
 */
const runAll = async (clickhouse: Clickhouse, statements: readonly string[], signal?: AbortSignal): Promise<void> => {
  for (const query of statements)
    await clickhouse.command({
      query,
      ...(signal !== undefined && { abort_signal: signal }),
      clickhouse_settings: {
        max_query_size: "4000000",
        do_not_merge_across_partitions_select_final: 1,
        max_threads: 1,
        os_thread_priority: "10",
      },
    });
};

/**
 * Writes minutes, and the hours and days that contain them, in a few inserts whatever the number of
 * clients; repeats of clicks are kept as they are. The same events give the same rows, and of two
 * computations of a minute the one under the newer mark wins. Throws the server's error; some
 * grains may then be newer than others until the next call.
 */
export const computeMinutes = async (clickhouse: Clickhouse, marks: readonly RollupMark[]): Promise<void> => {
  if (marks.length === 0) return;
  const hours = hoursOf(marks);
  await runAll(clickhouse, [minutes(marks, hours), hoursAbove(hours, repeatsOfBefore), daysAbove(hours)]);
};

/**
 * Computes what needs all events of an hour, once its minutes are computed: repeats of clicks and
 * dimensions. The following hour is computed too, since its clicks may repeat clicks of this one.
 * `signal` aborts it. Otherwise as `computeMinutes`.
 */
export const computeHours = async (
  clickhouse: Clickhouse,
  hours: readonly RollupHour[],
  signal?: AbortSignal,
): Promise<void> => {
  if (hours.length === 0) return;
  const above = withNext(hours.map(({ client_id, hour }) => [client_id, secondsOf(hour)]));
  const statements = [hoursAbove(above, repeats), daysAbove(above), ...computeDimensions(hours)];
  await runAll(clickhouse, statements, signal);
};

/** Computes both at once, for callers without a schedule. */
export const computeRollups = async (clickhouse: Clickhouse, marks: readonly RollupMark[]): Promise<void> => {
  await computeMinutes(clickhouse, marks);
  const newest = new Map<string, RollupHour>();
  for (const { client_id, minute, sequence } of marks) {
    const hour = hourOf(minute) * 1_000;
    const known = newest.get(`${client_id}/${hour}`);
    if (known === undefined || known.sequence < sequence)
      newest.set(`${client_id}/${hour}`, { client_id, hour, sequence });
  }
  await computeHours(clickhouse, [...newest.values()]);
};
