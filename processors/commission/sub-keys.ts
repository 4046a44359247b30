// The names under which commission remembers things of one partner at one client.

import { dayOf, monthOf } from "../../domain/calendar.ts";
import { contractTypeOf } from "../../domain/reference/event-types.ts";
import type { CapPeriod } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";

/**
 * Names of custom events, segments and customers are free text: what separates the parts of a key
 * is written as its code.
 */
const part = (text: string): string =>
  /[%|:*]/.test(text) ? text.replace(/[%|:*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`) : text;
/** A contract for all segments counts all of them together. */
const scope = (segment: string | null): string => (segment === null ? "*" : part(segment));

/** The month of Mexico City as YYYY-MM. */
export const monthName = (at: UnixMs): string => {
  const { year, month } = monthOf(at);
  return `${year}-${String(month).padStart(2, "0")}`;
};
const PERIOD_NAMES: Readonly<Record<CapPeriod, (at: UnixMs) => string>> = {
  day: dayOf,
  month: monthName,
  lifetime: () => "all",
};

/** What was earned by one conversion. */
export const conversionKey = (conversionId: string): string => `cnv:${part(conversionId)}`;
/**
 * What a contract has counted in the period of a sale: tiers by month, caps by theirs. `segment` is
 * the contract's.
 */
export const periodKey = (period: CapPeriod, at: UnixMs, segment: string | null, eventType: string): string =>
  `period:${PERIOD_NAMES[period](at)}:${scope(segment)}:${part(eventType)}`;
/** Since when a customer buys. `segment` is the contract's. */
export const customerKey = (segment: string | null, eventType: string, customer: string): string =>
  `customer:${scope(segment)}:${part(eventType)}:${part(customer)}`;

/**
 * Everything that a change may meet: its contract, for its segment or for all of them, is only
 * known when it is decided. Sales of apps were once counted under their own type: what is taken
 * back of those goes there, and a customer's months go on from there. So do those of a person from
 * what was counted for the device.
 */
export const subKeysOf = ({
  conversion_id,
  kind,
  segment,
  event_type,
  occurred_at,
  customer,
  device,
}: Conversion): readonly string[] => {
  const keys = [conversionKey(conversion_id)];
  // Asked once: every conversion comes by here, whatever its contract has use for.
  const periods = [dayOf(occurred_at), monthName(occurred_at), PERIOD_NAMES.lifetime(occurred_at)];
  const countsAs = contractTypeOf(event_type);
  const own = part(countsAs);
  const once = countsAs === event_type ? null : part(event_type);
  const names = kind !== "credited" || customer === "" ? [] : device === null ? [customer] : [customer, device];
  const buyers = names.map(part);
  for (const scoped of segment === null ? [scope(null)] : [scope(segment), scope(null)]) {
    for (const period of periods) keys.push(`period:${period}:${scoped}:${own}`);
    for (const buyer of buyers) keys.push(`customer:${scoped}:${own}:${buyer}`);
    if (once === null) continue;
    for (const buyer of buyers) keys.push(`customer:${scoped}:${once}:${buyer}`);
    if (kind !== "credited") for (const period of periods) keys.push(`period:${period}:${scoped}:${once}`);
  }
  return keys;
};
