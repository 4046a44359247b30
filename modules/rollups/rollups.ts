// Computes minutes again from the events that count, then the hours and days above them; groups
// that emptied become zeros.

import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import type { RollupMark } from "./rollup-marks.ts";
import { rollupColumns, rollupCounts, rollupGroups } from "./table.ts";

const groups = rollupGroups.join(", ");
const sums = rollupCounts.map((name) => `sum(${name})`).join(", ");
const target = `insert into rollups (${rollupColumns.map(({ name }) => name).join(", ")})`;

const HOUR = 3_600;
const secondsOf = (ms: number): number => Math.trunc(ms / 1_000);
const tuples = (rows: readonly (readonly (number | bigint)[])[]): string =>
  rows.map((row) => `(${row.join(", ")})`).join(", ");

/** Each touched hour of each client once, as (client, first second). */
const hoursOf = (marks: readonly RollupMark[]): readonly (readonly [number, number])[] => {
  const hours = new Map<string, readonly [number, number]>();
  for (const { client_id, minute } of marks) {
    const hour = Math.floor(secondsOf(minute) / HOUR) * HOUR;
    hours.set(`${client_id}/${hour}`, [client_id, hour]);
  }
  return [...hours.values()];
};

/**
 * The sort key of `events` ends in a client's hour, so that is what is read; all marked minutes of
 * it are counted in one pass. The groups that are there already are added with zeros, and a group
 * without an event keeps nothing else.
 */
const minutes = (marks: readonly RollupMark[]): string => `${target}
with marks as (
  select * from values('client_id UInt32, bucket DateTime(\\'UTC\\'), version UInt64',
    ${tuples(marks.map(({ client_id, minute, sequence }) => [client_id, secondsOf(minute), sequence]))})
)
select client_id, 'minute', bucket, ${groups}, ${sums}, any(marks.version)
from (
  select client_id, toStartOfMinute(ts) as bucket, coalesce(custom_name, t) as event_type, source,
    ifNull(partner_id, 0) as partner_id,
    ifNull(campaign_id, 0) as campaign_id, ifNull(country, '') as country, device, ifNull(currency, '') as currency,
    count() as events,
    countIf(t = 'click') as clicks,
    countIf(t in ('purchase', 'ext_purchase', 'lead_submit', 'install')) as conversions,
    countIf(t in ('purchase', 'ext_purchase', 'lead_submit', 'install')
      and credit_status = 'unattributed') as unattributed,
    sumIf(toInt128(ifNull(value_minor, 0)), t in ('purchase', 'ext_purchase')) as revenue_minor,
    countIf(fraud_band = 'review') as review,
    countIf(fraud_band = 'reject') as rejected
  from events_current
  where (client_id, toStartOfHour(ts)) in (${tuples(hoursOf(marks))})
  and (client_id, toStartOfMinute(ts)) in (select client_id, bucket from marks)
  group by client_id, bucket, ${groups}
  union all
  select client_id, bucket, ${groups}, ${rollupCounts.map(() => "0").join(", ")}
  from rollups final
  where grain = 'minute' and (client_id, bucket) in (select client_id, bucket from marks)
) as counted
inner join marks using (client_id, bucket)
group by client_id, bucket, ${groups}`;

/** Buckets are listed one by one, for so the sort key finds them. */
const listed = (hours: readonly (readonly [number, number])[], from: number, to: number, step: number): string => {
  const found = new Map<string, readonly [number, number]>();
  for (const [client, hour] of hours)
    for (let at = hour + from; at < hour + to; at += step) found.set(`${client}/${at}`, [client, at]);
  return tuples([...found.values()]);
};

const hoursAbove = (hours: readonly (readonly [number, number])[]): string => `${target}
select client_id, 'hour', toStartOfHour(bucket) as hour, ${groups}, ${sums}, max(version)
from rollups final
where grain = 'minute' and (client_id, bucket) in (${listed(hours, 0, HOUR, 60)})
group by client_id, hour, ${groups}`;

// A day of clocks that are set back has 25 hours.
const daysAbove = (hours: readonly (readonly [number, number])[]): string => `${target}
select client_id, 'day', toStartOfDay(bucket, 'America/Mexico_City') as day, ${groups}, ${sums}, max(version)
from rollups final
where grain = 'hour' and (client_id, bucket) in (${listed(hours, -25 * HOUR, 26 * HOUR, HOUR)})
  and (client_id, day) in (select c, toStartOfDay(h, 'America/Mexico_City') from
    values('c UInt32, h DateTime(\\'UTC\\')', ${tuples(hours)}))
group by client_id, day, ${groups}`;

/**
 * Three inserts, however many clients: minutes, hours, days. Computing again from the same events
 * gives the same rows, and of two computations of one minute the one under the newer mark stays.
 * Throws the server's error; then some grains may be newer than others until it is called again.
 */
export const computeRollups = async (clickhouse: Clickhouse, marks: readonly RollupMark[]): Promise<void> => {
  if (marks.length === 0) return;
  const hours = hoursOf(marks);
  // Ids, times and sequences are numbers: nothing of them can be anything else than a number in the
  // text. A list of thousands is longer than the parser's own limit.
  for (const query of [minutes(marks), hoursAbove(hours), daysAbove(hours)])
    await clickhouse.command({
      query,
      clickhouse_settings: { max_query_size: "4000000", do_not_merge_across_partitions_select_final: 1 },
    });
};
