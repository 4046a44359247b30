// processors/commission/sub-keys.ts - the names under which commission remembers things of one partner at one client.
import type { Conversion } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { dayOf, monthOf } from "../calendar.ts";
import type { CapPeriod } from "../reference.ts";

/** Names of custom events, segments and customers are free text: what separates the parts of a key is written as its code. */
const part = (text: string): string => text.replace(/[%|:*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`);
/** A contract for all segments counts all of them together. */
const scope = (segment: string | null): string => (segment === null ? "*" : part(segment));

/** The month of Mexico City as YYYY-MM. */
export const monthName = (at: UnixMs): string => {
  const { year, month } = monthOf(at);
  return `${year}-${String(month).padStart(2, "0")}`;
};
const PERIOD_NAMES: Readonly<Record<CapPeriod, (at: UnixMs) => string>> = { day: dayOf, month: monthName, lifetime: () => "all" };

/** What was earned by one conversion. */
export const conversionKey = (conversionId: string): string => `cnv:${part(conversionId)}`;
/** What a contract has counted in the period of a sale: tiers by month, caps by theirs. `segment` is the contract's. */
export const periodKey = (period: CapPeriod, at: UnixMs, segment: string | null, eventType: string): string =>
  `period:${PERIOD_NAMES[period](at)}:${scope(segment)}:${part(eventType)}`;
/** Since when a customer buys. `segment` is the contract's. */
export const customerKey = (segment: string | null, eventType: string, customer: string): string =>
  `customer:${scope(segment)}:${part(eventType)}:${part(customer)}`;

const PERIODS: readonly CapPeriod[] = ["day", "month", "lifetime"];

/** Everything that a change may meet: its contract, for its segment or for all of them, is only known when it is decided. */
export const subKeysOf = ({ conversion_id, kind, segment, event_type, occurred_at, customer }: Conversion): readonly string[] => [
  conversionKey(conversion_id),
  ...(segment === null ? [null] : [segment, null]).flatMap((scoped) => [
    ...PERIODS.map((period) => periodKey(period, occurred_at, scoped, event_type)),
    ...(kind === "credited" ? [customerKey(scoped, event_type, customer)] : []),
  ]),
];
