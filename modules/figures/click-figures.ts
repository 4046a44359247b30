// Clicks of two periods, in total and by one thing at a time, as the rollups say.
import type { PoolClient } from "pg";
import { dayOf, startOfDay } from "../../domain/calendar.ts";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { bind, type Condition, cond, count, readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { within as withTimeout } from "../../infra/runtime/timing/within.ts";
import { within } from "../rollups/rollup-reads.ts";
import type { Periods, Span } from "./periods.ts";
import type { Period } from "./sold-figures.ts";

export interface Clicks {
  /** Counted: without repeats and filtered ones. */
  readonly clicks: number;
  readonly repeats: number;
  readonly filtered: number;
}
export type ClickGroup = "day" | "partner_id" | "campaign_id";
export interface ClicksAsked {
  readonly clients: readonly number[];
  readonly partner_id?: number | undefined;
  readonly campaign_id?: number | undefined;
  readonly periods: Periods;
  readonly by: readonly ClickGroup[];
  /** Clients whose pixel tracks the clicks that it sees on a page; of others they are signals. */
  readonly tracking: readonly number[];
  readonly mostMs: number;
}
export interface ClickFigures {
  readonly total: Readonly<Record<Period, Clicks>>;
  /** Of the current period, by the text of the group. */
  readonly by: (group: ClickGroup, value: string) => Clicks;
  /** Groups with a click, "0" for those of no partner or campaign. */
  readonly values: (group: ClickGroup) => readonly string[];
}

/** Of these clients, those whose pixel tracks clicks. */
export const clientsTrackingClicks = async (tx: PoolClient, clients: readonly number[]): Promise<readonly number[]> => {
  const { rows } = await tx.query<{ client_id: number }>(sql`
    select client_id from pixel_configs where client_id = any (${clients}::int[]) and 'click' = any (tracked_events)`);
  return rows.map(({ client_id }) => client_id);
};

const NO_CLICKS: Clicks = { clicks: 0, repeats: 0, filtered: 0 };
const added = (all: Clicks, one: Clicks): Clicks => ({
  clicks: all.clicks + one.clicks,
  repeats: all.repeats + one.repeats,
  filtered: all.filtered + one.filtered,
});

/** Whole days by the day, and what is left of the last one by the hour. */
const bucketsIn = (span: Span): readonly (readonly ["day" | "hour", Span])[] => {
  const lastDay = startOfDay(dayOf(span.to));
  return span.to === lastDay
    ? [["day", span]]
    : [
        ["day", { from: span.from, to: lastDay }],
        ["hour", { from: lastDay, to: span.to }],
      ];
};

/** The counts of some rows; what is counted stands in one place for all that show clicks. */
const clickColumns = {
  all: count("sum(clicks)"),
  repeats: count("sum(repeats)"),
  filtered: count("sumIf(events, event_type = 'click_filtered')"),
};
const clicksThatCount = (tracking: readonly number[]): readonly Condition[] => [
  cond`clicks > 0 or event_type = 'click_filtered'`,
  cond`source != 'pixel' or client_id in ${bind("Array(UInt32)", tracking)}`,
];

const ofSpan = async (clickhouse: Clickhouse, asked: ClicksAsked, span: Span) => {
  const { clients, partner_id, campaign_id, by, tracking } = asked;
  const found = await Promise.all(
    bucketsIn(span).map(([grain, part]) =>
      readRows(clickhouse, scopeOf(...clients), {
        from: "rollups",
        columns: {
          on: text(by.includes("day") ? "toDate(bucket, 'America/Mexico_City')" : "''"),
          partner: text(by.includes("partner_id") ? "partner_id" : "0"),
          campaign: text(by.includes("campaign_id") ? "campaign_id" : "0"),
          ...clickColumns,
        },
        where: [
          ...within(grain, part),
          ...clicksThatCount(tracking),
          ...(partner_id === undefined ? [] : [cond`partner_id = ${bind("UInt32", partner_id)}`]),
          ...(campaign_id === undefined ? [] : [cond`campaign_id = ${bind("UInt32", campaign_id)}`]),
        ],
        groupBy: ["on", "partner", "campaign"],
      }),
    ),
  );
  return found.flat();
};

/** Throws when the answer takes longer than `mostMs`. */
export const clickFigures = async (clickhouse: Clickhouse, asked: ClicksAsked): Promise<ClickFigures> => {
  if (asked.clients.length === 0)
    return { total: { current: NO_CLICKS, previous: NO_CLICKS }, by: () => NO_CLICKS, values: () => [] };
  const { current, previous } = asked.periods;
  const both = Promise.all([ofSpan(clickhouse, asked, current), ofSpan(clickhouse, { ...asked, by: [] }, previous)]);
  const [now, before] = await withTimeout(asked.mostMs, both, "the clicks are not known in time");
  const clicksIn = ({ all, repeats, filtered }: (typeof now)[number]): Clicks => ({
    clicks: all - repeats,
    repeats,
    filtered,
  });
  const sum = (rows: typeof now): Clicks => rows.map(clicksIn).reduce(added, NO_CLICKS);
  const column = { day: "on", partner_id: "partner", campaign_id: "campaign" } as const;
  const groups = asked.by.map((name) => {
    const values = new Map<string, Clicks>();
    for (const row of now) {
      const value = row[column[name]];
      values.set(value, added(values.get(value) ?? NO_CLICKS, clicksIn(row)));
    }
    return [name, values] as const;
  });
  const known = new Map(groups);
  return {
    total: { current: sum(now), previous: sum(before) },
    by: (group, value) => known.get(group)?.get(value) ?? NO_CLICKS,
    values: (group) => [...(known.get(group)?.keys() ?? [])],
  };
};
