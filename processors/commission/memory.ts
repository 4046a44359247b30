// The memory of commission about one partner at one client, and its keys: the earnings of each
// conversion, the counts of each period, the first sale of each customer, and the lines of orders
// that a contract pays once.
import { dayOf, monthOf } from "../../domain/calendar.ts";
import { type CapPeriod, contractTypeOf } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import { remembersBy, type UnixMs } from "../../stream/flow.ts";
import { type Count, type Customer, decode, type EarnedSale, encode, type RememberedMoney } from "./memory-format.ts";
import type { OrderLines } from "./order-format.ts";

/**
 * Names of custom events, segments and customers are free text, so the separator characters in them
 * are escaped.
 */
const part = (text: string): string =>
  /[%|:*]/.test(text) ? text.replace(/[%|:*]/g, (sign) => `%${sign.charCodeAt(0).toString(16)}`) : text;
/** A contract for all segments has one count for all of them. */
const scope = (segment: string | null): string => (segment === null ? "*" : part(segment));

/** The month in Mexico City as YYYY-MM. */
export const monthName = (at: UnixMs): string => {
  const { year, month } = monthOf(at);
  return `${year}-${String(month).padStart(2, "0")}`;
};
const PERIOD_NAMES: Readonly<Record<CapPeriod, (at: UnixMs) => string>> = {
  day: dayOf,
  month: monthName,
  lifetime: () => "all",
};

/** The key of the earnings of one conversion. */
export const conversionKey = (conversionId: string): string => `cnv:${part(conversionId)}`;
/**
 * The key of the counts for the period of a sale. Tiers count by month, caps by their own period.
 * `segment` is the contract's.
 */
export const periodKey = (period: CapPeriod, at: UnixMs, segment: string | null, eventType: string): string =>
  `period:${PERIOD_NAMES[period](at)}:${scope(segment)}:${part(eventType)}`;
/** The key of a customer's first sale. `segment` is the contract's. */
export const customerKey = (segment: string | null, eventType: string, customer: string): string =>
  `customer:${scope(segment)}:${part(eventType)}:${part(customer)}`;

/** The key of an order's lines. `segment` and type are the contract's. */
export const orderKey = (orderId: string, segment: string | null, eventType: string): string =>
  `order:${part(orderId)}:${scope(segment)}:${part(eventType)}`;

/**
 * Every key that a change may need. Its contract, for its segment or for all segments, is only
 * known when the change is decided. App sales once counted under their own type, so those keys are
 * included: refunds of such sales reduce those counts, and a customer's months continue from there.
 * A person's months also continue from the counts of the device.
 */
const subKeysOf = ({
  conversion_id,
  kind,
  segment,
  event_type,
  occurred_at,
  order_id,
  customer,
  device,
}: Conversion): readonly string[] => {
  const keys = [conversionKey(conversion_id)];
  // Computed once, because every conversion passes here, even if its contract needs no period.
  const periods = [dayOf(occurred_at), monthName(occurred_at), PERIOD_NAMES.lifetime(occurred_at)];
  const countsAs = contractTypeOf(event_type);
  const own = part(countsAs);
  const once = countsAs === event_type ? null : part(event_type);
  const names = kind !== "credited" || customer === "" ? [] : device === null ? [customer] : [customer, device];
  const buyers = names.map(part);
  for (const scoped of segment === null ? [scope(null)] : [scope(segment), scope(null)]) {
    for (const period of periods) keys.push(`period:${period}:${scoped}:${own}`);
    if (order_id !== null && kind !== "released") keys.push(`order:${part(order_id)}:${scoped}:${own}`);
    for (const buyer of buyers) keys.push(`customer:${scoped}:${own}:${buyer}`);
    if (once === null) continue;
    for (const buyer of buyers) keys.push(`customer:${scoped}:${once}:${buyer}`);
    if (kind !== "credited") for (const period of periods) keys.push(`period:${period}:${scoped}:${once}`);
  }
  return keys;
};

/**
 * A line that is gone leaves the amounts of its order to another one, whose earnings and periods
 * are then needed too.
 */
const furtherKeysOf = (change: Conversion, values: readonly (RememberedMoney | undefined)[]): readonly string[] => {
  const keys: string[] = [];
  if (!isGone(change)) return keys;
  for (const value of values) {
    if (value?.is !== "order" || !value.lines.some((one) => one.conversion_id === change.conversion_id)) continue;
    const { contract_segment, counts_as } = value;
    for (const { conversion_id, at, pays } of value.lines) {
      if (conversion_id === change.conversion_id) continue;
      const period = pays === null ? "month" : pays.cap?.period;
      keys.push(conversionKey(conversion_id));
      if (period !== undefined) keys.push(periodKey(period, at, contract_segment, counts_as));
    }
  }
  return keys;
};
/** True if nothing is left of the line. */
export const isGone = ({ kind, refunded_minor, line_value_minor }: Conversion): boolean =>
  kind === "reversed" && refunded_minor >= line_value_minor;

export type CommissionMemory = Readonly<Record<string, RememberedMoney>>;

/**
 * One value each for a conversion, for a period of a contract's segment and type, for a customer,
 * and for an order. None of them grows with the number of a partner's sales.
 */
export const earned = remembersBy<RememberedMoney>({
  name: "earned",
  keyedBy: "client_id:partner_id",
  driver: "durable",
  keysOf: (event) => subKeysOf(event.data),
  furtherKeysOf: (event, values) => furtherKeysOf(event.data, values),
  encode,
  decode,
});

export const conversionIn = (memory: CommissionMemory, key: string): EarnedSale | undefined => {
  const kept = memory[key];
  return kept?.is === "conversion" ? kept : undefined;
};
export const customerIn = (memory: CommissionMemory, key: string): Customer | undefined => {
  const kept = memory[key];
  return kept?.is === "customer" ? kept : undefined;
};
export const orderIn = (memory: CommissionMemory, key: string): OrderLines | undefined => {
  const kept = memory[key];
  return kept?.is === "order" ? kept : undefined;
};
const NO_COUNT: Count = { paid_minor: 0n, sold: {} };
/** The current counts under this key. */
export const countIn = (memory: CommissionMemory, key: string): Count => {
  const kept = memory[key];
  return kept?.is === "counts" ? kept : NO_COUNT;
};
export const withCount = (memory: CommissionMemory, key: string, count: Count): CommissionMemory => ({
  ...memory,
  [key]: { ...count, is: "counts" },
});
