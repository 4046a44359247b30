// Writes months of history of one client directly into ClickHouse and Postgres, for benches of
// reads, without the hours that the pipeline would need.
import type pg from "pg";
import { dayOf, startOfDay } from "../../domain/calendar.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { type Sql, sql } from "../../infra/postgres/sql.ts";
import { computeRollups } from "../../modules/figures/rollups/rollups.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events as eventsTable } from "../../sinks/analytics/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { attributed, clickCredit, recorded } from "../../tests/support/builders.ts";
import { topics } from "../../topics.ts";

export interface HistoryOf {
  readonly clickhouse: Clickhouse;
  /** The owner of the tables, with time for long statements. */
  readonly owner: pg.Pool;
  readonly clientId: number;
  readonly partners: readonly number[];
  readonly campaigns: readonly number[];
  readonly days: number;
  /** A multiple of 10,000. */
  readonly eventsADay: number;
  readonly say: (line: string) => void;
}
const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
/**
 * Events made by the real mapping; each day has copies of them with other ids, times and devices.
 */
const MAPPED = 10_000;
/** Each 50th mapped event is a sale, and three of four sales are credited. */
const SALES_APART = 50;
const SALES_OF_MAPPED = MAPPED / SALES_APART;
/** One statement writes this many days. */
const DAYS_AT_ONCE = 10;
const DEVICES = 900_000;
/** Tables that keep one day as the source of copies. */
const COPIED = ["events", "rollups", "rollup_dimensions"] as const;

const dayNumber = (day: number): number => Math.floor(day / DAY_MS);
/** The first eight digits are the day, the last twelve the event within it. */
const eventIdOf = (day: number, number: number): string =>
  `${dayNumber(day).toString(16).padStart(8, "0")}-0000-8000-8000-${number.toString(16).padStart(12, "0")}`;
const orderOf = (day: number, sale: number): string => `bench-${dayNumber(day)}-${sale}`;
const deviceOf = (day: number, number: number): string => `d${(number * 7_919 + dayNumber(day) * 131) % DEVICES}`;

/**
 * Writes the `days` before today, in America/Mexico_City. The figures of the last day are computed
 * as the keeper does it; the other days get copies of them. Returns one order and its event.
 */
export const writeHistory = async (of: HistoryOf): Promise<{ readonly order: string; readonly event: string }> => {
  const last = startOfDay(dayOf(Date.now())) - DAY_MS;
  const began = performance.now();
  const said = (what: string): void => of.say(`${what} after ${((performance.now() - began) / 1_000).toFixed(0)} s`);
  await writeLastDay(of, last);
  said("the day that is copied is there");
  await Promise.all([
    inParts(1, of.days, (from, to) => copyDays(of, last, from, to)).then(() => said("ClickHouse has its history")),
    inParts(0, of.days, (from, to) => writeSales(of, last, from, to)).then(() => said("Postgres has its history")),
  ]);
  for (const name of COPIED) await of.clickhouse.command({ query: `drop table bench_${name}` });
  await of.owner.query("analyze product_sales, conversions, commissions, ledger_entries, ledger_lines");
  return { order: orderOf(last, 1), event: eventIdOf(last, SALES_APART) };
};

const inParts = async (from: number, to: number, write: (from: number, to: number) => Promise<void>): Promise<void> => {
  for (let n = from; n < to; n += DAYS_AT_ONCE) await write(n, Math.min(n + DAYS_AT_ONCE, to));
};

/** A sale of the mapping, with the same values in both stores. */
const saleOf = (n: number, holders: number) => ({
  isCredited: n % 4 !== 0,
  holder: (n * 17) % holders,
  value_minor: BigInt(10_000 + n * 100),
});

const mappedEvent = ({ clientId, partners, campaigns, eventsADay }: HistoryOf, day: number, m: number) => {
  const isSale = m % SALES_APART === 0;
  const isClick = m % 10 === 5;
  const sale = saleOf(Math.floor(m / SALES_APART), partners.length);
  const holder = isSale ? sale.holder : m % partners.length;
  const credit = clickCredit({ partner_id: partners[holder]!, campaign_id: campaigns[holder]! });
  const sold = {
    ...{ order_id: orderOf(day, Math.floor(m / SALES_APART)), value_minor: sale.value_minor },
    props: Math.floor(m / SALES_APART) % 10 === 0 ? '{"coupon":"ABRIL"}' : "{}",
  };
  const notSold = { order_id: null, product_id: null, quantity: null, value_minor: null, currency: null };
  return attributed(
    {
      ...{ client_id: clientId, event_id: eventIdOf(day, m), ts: day + (m * DAY_MS) / eventsADay },
      ...{ t: isSale ? "purchase" : isClick ? "click" : "page_view", source: m % 3 === 0 ? "pixel" : "batch" },
      ...{ did: deviceOf(day, m), ...(isSale ? sold : notSold) },
    },
    {
      enrichment: {
        country: ["MX", "US", "CO", "ES", "AR"][(m + Math.floor(m / SALES_APART)) % 5]!,
        device: ["desktop", "mobile", "tablet"][m % 3]!,
      },
      ...((isSale ? sale.isCredited : isClick || m % 4 === 0) && { credit }),
    },
  );
};

const writeLastDay = async (of: HistoryOf, day: number): Promise<void> => {
  const { clickhouse, clientId, eventsADay } = of;
  const rows = Array.from({ length: MAPPED }, (_, m) => mappedEvent(of, day, m)).flatMap((data) =>
    eventRows(recorded(topics.eventsAttributed, data)),
  );
  await clickhouseStore(clickhouse).insert(eventsTable, rows, "bench/history");
  await clickhouse.command({
    query: `create table bench_events engine = MergeTree order by number as
      select * except (copy),
        intDiv(toUnixTimestamp64Milli(ts) - ${day}, ${DAY_MS / eventsADay}) + copy * ${MAPPED} as number
      from events cross join (select number as copy from numbers(${eventsADay / MAPPED})) as copies
      where client_id = ${clientId}`,
  });
  await clickhouse.command({ query: eventsOf(of, day, 0, 1) });
  const marks = Array.from({ length: DAY_MS / MINUTE_MS }, (_, minute) => ({
    ...{ client_id: clientId, minute: day + minute * MINUTE_MS, sequence: 1n },
  }));
  await computeRollups(clickhouse, marks);
  for (const name of ["rollups", "rollup_dimensions"])
    await clickhouse.command({
      query: `create table bench_${name} engine = MergeTree order by bucket as
        select * from ${name} final where client_id = ${clientId}`,
    });
};

const backBy = (from: number, to: number): string =>
  `(select number + ${from} as back from numbers(${to - from})) as backs`;

/** The events of days `from` to `to` before the last one; the first days must be there. */
const eventsOf = ({ eventsADay }: HistoryOf, last: number, from: number, to: number): string => {
  const day = `(toInt64(${last}) - back * ${DAY_MS})`;
  const days = `toUInt32(intDiv(${day}, ${DAY_MS}))`;
  const at = `fromUnixTimestamp64Milli(${day} + toInt64(number) * ${DAY_MS / eventsADay}, 'UTC')`;
  const hex = (value: string, digits: number): string => `leftPad(lower(hex(${value})), ${digits}, '0')`;
  return `insert into events select * except (number, back) replace (
      toUUID(concat(${hex(days, 8)}, '-0000-8000-8000-', ${hex("toUInt64(number)", 12)})) as event_id,
      ${at} as ts, ${at} as received_at,
      concat('d', toString((number * 7919 + ${days} * 131) % ${DEVICES})) as did,
      if(isNull(order_id), null, concat('bench-', toString(${days}), '-',
        toString(intDiv(number, ${SALES_APART})))) as order_id)
    from bench_events cross join ${backBy(from, to)} where back > 0 or number >= ${MAPPED}`;
};

const copyDays = async (of: HistoryOf, last: number, from: number, to: number): Promise<void> => {
  await of.clickhouse.command({ query: eventsOf(of, last, from, to) });
  for (const name of ["rollups", "rollup_dimensions"])
    await of.clickhouse.command({
      query: `insert into ${name} select * except (back) replace (bucket - toIntervalDay(back) as bucket)
        from bench_${name} cross join ${backBy(from, to)}`,
    });
};

/** The sales of these days with the values of `saleOf`, each with its order. */
const salesOf = (of: HistoryOf, last: number, from: number, to: number): Sql => {
  const { clientId, partners, campaigns, eventsADay } = of;
  const each = SALES_APART * (DAY_MS / eventsADay);
  return sql`select ${clientId}::int as client_id, 'bench-' || day || '-' || n as name,
      (lpad(to_hex(day), 8, '0') || '-0000-8000-8000-' || lpad(to_hex(n * ${SALES_APART}::int), 12, '0'))::uuid
        as event_id,
      'd' || ((n * ${SALES_APART * 7_919}::bigint + day * 131) % ${DEVICES}::int) as did,
      to_timestamp((${last}::bigint - back * ${DAY_MS}::bigint + n * ${each}::bigint) / 1000.0) as at,
      (${partners}::int[])[1 + n % ${SALES_OF_MAPPED}::int * 17 % ${partners.length}::int] as partner_id,
      (${campaigns}::int[])[1 + n % ${SALES_OF_MAPPED}::int * 17 % ${partners.length}::int] as campaign_id,
      (10000 + n % ${SALES_OF_MAPPED}::int * 100)::bigint as value, n % 4 <> 0 as is_credited
    from generate_series(${from}::int, ${to - 1}::int) back,
      lateral (select (${dayNumber(last)}::int - back) as day) days,
      generate_series(0, ${eventsADay / SALES_APART - 1}::int) n`;
};

/** Writes the order of each sale; for a credited sale also its conversion, commission and entry. */
const writeSales = async (of: HistoryOf, last: number, from: number, to: number): Promise<void> => {
  const all = salesOf(of, last, from, to);
  const credited = sql`select s.*, extract(year from at at time zone 'America/Mexico_City')::int as year,
    extract(month from at at time zone 'America/Mexico_City')::int as month from (${all}) s where is_credited`;
  await of.owner.query(sql`
    insert into product_sales (client_id, event_id, version, t, order_id, product_id, segment, quantity, value_minor,
      currency, occurred_at, did, credit_status, credit_reason, partner_id, campaign_id, fraud_band)
    select client_id, event_id, 1, 'purchase', name, 'sku1', 'MX', 1, value, 'MXN', at, did,
      case when is_credited then 'attributed' else 'unattributed' end, case when not is_credited then 'no_click' end,
      case when is_credited then partner_id end, case when is_credited then campaign_id end, 'ok' from (${all}) s`);
  await of.owner.query(sql`
    insert into conversions (client_id, conversion_id, version, partner_id, campaign_id, event_id, cause_event_id,
      event_type, order_id, segment, customer, occurred_at, value_minor, refunded_minor, currency, status, method,
      content_hash)
    select client_id, name, 1, partner_id, campaign_id, event_id, event_id, 'purchase', name, 'MX', did, at, value,
      0, 'MXN', 'credited', 'click', 'x' from (${credited}) s`);
  await of.owner.query(sql`
    insert into commissions (client_id, commission_id, conversion_id, version, partner_id, campaign_id, event_type,
      segment, amount_minor, currency, status, year, month, occurred_at, receipt)
    select client_id, name, name, 1, partner_id, campaign_id, 'purchase', 'MX', value / 10, 'MXN', 'pending', year,
      month, at, '{}' from (${credited}) s`);
  await of.owner.query(sql`
    with entry as (
      insert into ledger_entries (client_id, entry_id, kind, partner_id, campaign_id, conversion_id, change_id,
        conversion_version, event_type, currency, amount_minor, held_minor, formula, inputs, occurred_at, year, month,
        held, content_hash)
      select client_id, name, 'earned', partner_id, campaign_id, name, name, 1, 'purchase', 'MXN', value / 10, 0,
        'given', '{}', at, year, month, false, 'x' from (${credited}) s
      returning client_id, entry_id, amount_minor)
    insert into ledger_lines (client_id, entry_id, line, account, currency, amount_minor)
    select client_id, entry_id, line, account, 'MXN', sign * amount_minor from entry, (values
      (1, 'expense:client', 1), (2, 'payable:partner', -1)) as lines (line, account, sign)`);
};
