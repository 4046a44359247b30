// Inspects a client's day for the nightly pass: counts from ClickHouse, findings, and the decisions
// that follow from them.
import { startOfDay } from "../../../domain/calendar.ts";
import type { Client } from "../../../domain/reference/reference.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { pickColumns } from "../../../infra/clickhouse/columns.ts";
import {
  bind,
  type ClientScope,
  type Condition,
  cond,
  count,
  readRows,
  scopeOf,
} from "../../../infra/clickhouse/query.ts";
import type { Claim } from "../../../schemas/generated.ts";
import { eventReads } from "../../../sinks/analytics/table.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { decisionsOf, type FlaggedConversion } from "./decisions.ts";
import { type Finding, findingsOf, type PartnerCounts } from "./findings.ts";

export interface FoundConversion extends FlaggedConversion {
  readonly value_minor: bigint | null;
  readonly currency: string | null;
}
export interface InspectedDay {
  readonly findings: readonly Finding[];
  /** The day's conversions for every partner with a finding. */
  readonly conversions: readonly FoundConversion[];
  readonly decisions: readonly Claim[];
}

const DAY_MS = 86_400_000;
/** Days whose conversions form the distribution, the day itself included. */
const DISTRIBUTION_DAYS = 7;
const HOUR_MS = 3_600_000;
/** Timestamps of senders are accepted up to a day ahead, and rows are found by them. */
const AHEAD_MS = DAY_MS;

const elapsed = "toUnixTimestamp64Milli(at) - toUnixTimestamp64Milli(clicked_at)";
const byClick = cond`t in ('purchase', 'ext_purchase', 'lead_submit', 'install') and credit_method = 'click'
  and partner_id is not null and clicked_at is not null`;
const during = (from: UnixMs, to: UnixMs): Condition => {
  const at = (value: UnixMs) => bind("Int64", value);
  return cond`ts >= fromUnixTimestamp64Milli(${at(from)}) and ts < fromUnixTimestamp64Milli(${at(to + AHEAD_MS)})
    and at >= fromUnixTimestamp64Milli(${at(from)}) and at < fromUnixTimestamp64Milli(${at(to)})`;
};

/**
 * `day` is a day of Mexico City, YYYY-MM-DD. Throws RangeError on another text, and errors of
 * ClickHouse.
 */
export const inspectDay = async (
  clickhouse: Clickhouse,
  client: Client,
  day: string,
  now: UnixMs,
): Promise<InspectedDay> => {
  const scope = scopeOf(client.client_id);
  const from = startOfDay(day);
  const to = startOfDay(new Date(Date.parse(day) + DAY_MS).toISOString().slice(0, 10));
  const findings = findingsOf(await countsOf(clickhouse, scope, from, to), client.fraud_nightly);
  const conversions = findings.length === 0 ? [] : await conversionsOf(clickhouse, scope, from, to, findings);
  const { client_id, fraud_review: review_from, fraud_reject: reject_from } = client;
  return {
    findings,
    conversions,
    decisions: decisionsOf(findings, conversions, { client_id, day, review_from, reject_from, at: now }),
  };
};

const countsOf = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  from: UnixMs,
  to: UnixMs,
): Promise<readonly PartnerCounts[]> => {
  const partner_id = count("partner_id");
  const clicks = await readRows(clickhouse, scope, {
    from: "events_current",
    columns: { partner_id, clicks: count("count()") },
    where: [cond`t = 'click' and partner_id is not null`, during(from, to)],
    groupBy: ["partner_id"],
  });
  const conversions = await readRows(clickhouse, scope, {
    from: "events_current",
    columns: { partner_id, conversions: count("count()") },
    where: [byClick, during(from, to)],
    groupBy: ["partner_id"],
  });
  const hours = await readRows(clickhouse, scope, {
    from: "events_current",
    columns: { partner_id, hour: count(`intDiv(${elapsed}, ${HOUR_MS})`), conversions: count("count()") },
    where: [byClick, during(to - DISTRIBUTION_DAYS * DAY_MS, to)],
    groupBy: ["partner_id", "hour"],
  });
  const byHour = new Map<number, Map<number, number>>();
  for (const row of hours)
    byHour.set(row.partner_id, (byHour.get(row.partner_id) ?? new Map()).set(row.hour, row.conversions));
  const clicksOf = new Map(clicks.map((row) => [row.partner_id, row.clicks]));
  const conversionsOf = new Map(conversions.map((row) => [row.partner_id, row.conversions]));
  return [...new Set([...clicksOf.keys(), ...byHour.keys()])].map((id) => ({
    partner_id: id,
    clicks: clicksOf.get(id) ?? 0,
    conversions: conversionsOf.get(id) ?? 0,
    byHour: byHour.get(id) ?? new Map(),
  }));
};

const conversionsOf = async (
  clickhouse: Clickhouse,
  scope: ClientScope,
  from: UnixMs,
  to: UnixMs,
  findings: readonly Finding[],
): Promise<readonly FoundConversion[]> => {
  const partners = [...new Set(findings.map(({ partner_id }) => partner_id))];
  const rows = await readRows(clickhouse, scope, {
    from: "events_current",
    columns: {
      ...pickColumns(eventReads, "event_id", "t", "order_id", "product_id", "did", "source"),
      ...pickColumns(eventReads, "dedup_key", "lead_key", "sale_hash", "warnings", "fraud_reasons"),
      ...pickColumns(eventReads, "value_minor", "currency"),
      // Never null here, because `byClick` requires a partner.
      partner_id: count("partner_id"),
      elapsed_ms: count(elapsed),
    },
    where: [byClick, during(from, to), cond`partner_id in ${bind("Array(UInt32)", partners)}`],
    orderBy: ["event_id"],
  });
  return rows.map(({ partner_id, elapsed_ms, fraud_reasons, value_minor, currency, ...event }) => ({
    event,
    partner_id,
    elapsed_ms,
    codes: (JSON.parse(fraud_reasons) as readonly { readonly code: string }[]).map(({ code }) => code),
    value_minor,
    currency,
  }));
};
