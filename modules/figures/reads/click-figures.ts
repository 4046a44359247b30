// Reads the clicks of two periods from the rollups, in total and grouped.
import { dayOf, startOfDay } from "../../../domain/calendar.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { bind, type Condition, cond, count, flag, readRows, scopeOf, text } from "../../../infra/clickhouse/query.ts";
import { piece } from "../../../infra/clickhouse/sql-fragments.ts";
import { within } from "../../../infra/runtime/timing/time-limit.ts";
import type { Periods, Span } from "./periods.ts";
import type { Period } from "./sold-figures.ts";

export interface Clicks {
  /** Counted clicks, without repeats and filtered ones. */
  readonly clicks: number;
  readonly repeats: number;
  readonly filtered: number;
}
type ClickGroup = "day" | "partner_id" | "campaign_id";
export interface ClicksAsked {
  readonly clients: readonly number[];
  readonly partner_id?: number | undefined;
  readonly campaign_id?: number | undefined;
  readonly periods: Periods;
  readonly by: readonly ClickGroup[];
  readonly mostMs: number;
}
export interface ClickFigures {
  readonly total: Readonly<Record<Period, Clicks>>;
  /** Clicks of a group in the current period, by the group's text. */
  readonly by: (group: ClickGroup, value: string) => Clicks;
  /** Groups with a click; "0" stands for no partner or campaign. */
  readonly values: (group: ClickGroup) => readonly string[];
}

const NO_CLICKS: Clicks = { clicks: 0, repeats: 0, filtered: 0 };
const added = (all: Clicks, one: Clicks): Clicks => ({
  clicks: all.clicks + one.clicks,
  repeats: all.repeats + one.repeats,
  filtered: all.filtered + one.filtered,
});

const isIn = (grain: "day" | "hour", { from, to }: Span): Condition => cond`
  grain = ${bind("String", grain)} and bucket >= toDateTime(${bind("Int64", from / 1_000)}, 'UTC')
  and bucket < toDateTime(${bind("Int64", to / 1_000)}, 'UTC')`;

/** Reads whole days by the day, and a partial last day by the hour. */
const bucketsIn = ({ from, to }: Span): Condition => {
  const lastDay = startOfDay(dayOf(to));
  return piece`(${isIn("day", { from, to: lastDay })}) or (${isIn("hour", { from: lastDay, to })})`;
};

/** The counts of some rows. Every view that shows clicks uses this one definition. */
const clickColumns = {
  all: count("sum(clicks)"),
  repeats: count("sum(repeats)"),
  filtered: count("sumIf(events, event_type = 'click_filtered')"),
};
const clicksThatCount: readonly Condition[] = [
  cond`clicks > 0 or event_type = 'click_filtered'`,
  // A page reports no click of a tracking link: the pixel host refuses this type.
  cond`source != 'pixel'`,
];

/**
 * Reads both periods in one query, because a query costs more than its rows. Groups are those of
 * the current period.
 */
const rowsOf = (clickhouse: Clickhouse, asked: ClicksAsked) => {
  const { clients, partner_id, campaign_id, by, periods } = asked;
  const { current, previous } = periods;
  const isCurrent = `bucket >= toDateTime(${current.from / 1_000}, 'UTC')`;
  const group = (name: ClickGroup, value: string, none: string) =>
    text(by.includes(name) ? `if(${isCurrent}, toString(${value}), '${none}')` : `'${none}'`);
  return readRows(clickhouse, scopeOf(...clients), {
    from: "rollups",
    columns: {
      current: flag(isCurrent),
      on: group("day", "toDate(bucket, 'America/Mexico_City')", ""),
      partner: group("partner_id", "partner_id", "0"),
      campaign: group("campaign_id", "campaign_id", "0"),
      ...clickColumns,
    },
    where: [
      piece`(${bucketsIn(current)}) or (${bucketsIn(previous)})`,
      ...clicksThatCount,
      ...(partner_id === undefined ? [] : [cond`partner_id = ${bind("UInt32", partner_id)}`]),
      ...(campaign_id === undefined ? [] : [cond`campaign_id = ${bind("UInt32", campaign_id)}`]),
    ],
    groupBy: ["current", "on", "partner", "campaign"],
  });
};

/** Throws when the query takes longer than `mostMs`. */
export const clickFigures = async (clickhouse: Clickhouse, asked: ClicksAsked): Promise<ClickFigures> => {
  if (asked.clients.length === 0)
    return { total: { current: NO_CLICKS, previous: NO_CLICKS }, by: () => NO_CLICKS, values: () => [] };
  const rows = await within(asked.mostMs, rowsOf(clickhouse, asked), "the clicks are not known in time");
  const now = rows.filter(({ current }) => current);
  const before = rows.filter(({ current }) => !current);
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
