// The memory of commission about one partner at one client, and its keys: the earnings of each
// conversion, the counts of each period, the first sale of each customer and the sales whose months
// begin with it, and the lines of orders that a contract pays once.
import { dayOf, monthOf } from "../../domain/calendar.ts";
import { type CapPeriod, contractTypeOf } from "../../domain/reference/reference.ts";
import type { Conversion } from "../../schemas/generated.ts";
import { remembersBy, type UnixMs } from "../../stream/flow.ts";
import { isAfterMonths } from "./contract-types/recurring.ts";
import type { Customer, CustomerMonth, CustomerSale } from "./customer/format.ts";
import { type Count, decode, type EarnedSale, encode, type RememberedMoney } from "./memory-format.ts";
import type { OrderLines } from "./orders/order-format.ts";
import { givingWay, heirOf, movedBy } from "./orders/order-parts.ts";

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

/** The key of a customer's sales of one calendar month, beyond those beside the first sale. */
export const customerMonthKey = (month: string, segment: string | null, eventType: string, customer: string): string =>
  `customer_month:${month}:${scope(segment)}:${part(eventType)}:${part(customer)}`;

/** The key of an order's lines. `segment` and type are the contract's. */
export const orderKey = (orderId: string, segment: string | null, eventType: string): string =>
  `order:${part(orderId)}:${scope(segment)}:${part(eventType)}`;

/**
 * Every key that a change may need. Its contract, for its segment or for all segments, is only
 * known when the change is decided. App sales once counted under their own type, so those keys are
 * included: refunds of such sales reduce those counts, and a customer's months continue from there.
 * A person's months also continue from the counts of the device.
 */
const subKeysOf = (change: Conversion): readonly string[] => {
  const { conversion_id, kind, segment, event_type, occurred_at, order_id, customer, device } = change;
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
    if (customer !== "" && isGone(change)) keys.push(`customer:${scoped}:${own}:${part(customer)}`);
    if (once === null) continue;
    for (const buyer of buyers) keys.push(`customer:${scoped}:${once}:${buyer}`);
    if (kind !== "credited") for (const period of periods) keys.push(`period:${period}:${scoped}:${once}`);
  }
  return keys;
};

/** True if a sale turns out to lie behind the months of its customer, which begin at `since`. */
export const losesBy = ({ at, months }: Pick<CustomerSale, "at" | "months">, since: UnixMs): boolean =>
  isAfterMonths(at, since, months);

/** The months whose further sales a change may have to read: its own, and those that may lose. */
const customerMonthsOf = (
  change: Conversion,
  { since, contract_segment, sales, months }: Customer,
): readonly string[] => {
  const own = monthName(change.occurred_at);
  const isMoved = change.kind === "credited" && change.occurred_at < since;
  const isKept = change.kind === "credited" && sales.length >= SALES_TOGETHER;
  const lose = months.filter((month) => isMoved && month > own);
  const met = isKept || months.includes(own) ? [own, ...lose] : lose;
  return met.map((month) =>
    customerMonthKey(month, contract_segment, contractTypeOf(change.event_type), change.customer),
  );
};

/** A customer's sales that lose by a change, which is the first of its sales that is known. */
const lostBy = ({ kind, occurred_at }: Conversion, value: RememberedMoney | undefined): readonly CustomerSale[] => {
  if (kind !== "credited" || (value?.is !== "customer" && value?.is !== "customer_month")) return [];
  if (value.is === "customer" && value.since <= occurred_at) return [];
  return value.sales.filter((one) => losesBy(one, occurred_at));
};

const NO_KEYS: readonly string[] = [];

/**
 * What the first values name. A sale that is the first of its customer takes from later ones; a
 * line that is gone, or that loses in this way, leaves the amounts of its order to another one, and
 * a line of 0 leaves them to the first one of value. The earnings and the periods of all of them
 * are then needed too.
 */
const furtherKeysOf = (change: Conversion, values: readonly (RememberedMoney | undefined)[]): readonly string[] => {
  // Most sales are the first under each of their keys.
  if (values.every((value) => value === undefined || value.is === "counts")) return NO_KEYS;
  const { event_type, kind, conversion_id } = change;
  const lost = values.flatMap((value) => lostBy(change, value));
  const gone = new Set(isGone(change) ? [conversion_id] : lost.map((one) => one.conversion_id));
  const keys = lost.map((one) => conversionKey(one.conversion_id));
  for (const value of values) {
    if (value === undefined) continue;
    if (value.is === "customer") keys.push(...customerMonthsOf(change, value));
    if (value.is === "customer" || value.is === "customer_month")
      for (const { order_id } of lostBy(change, value))
        if (order_id !== null) keys.push(orderKey(order_id, value.contract_segment, contractTypeOf(event_type)));
    if (value.is === "order") keys.push(...keysOfOrder(change, value, gone));
    if (value.is === "conversion" && kind === "credited") keys.push(...keysOfCap(value));
  }
  return keys;
};
/** Only of lines that earn another amount: a large order would load all of its lines each time. */
const keysOfOrder = (
  { kind, line_value_minor }: Conversion,
  { lines, contract_segment, counts_as }: OrderLines,
  gone: ReadonlySet<string>,
): readonly string[] => {
  const going = lines.filter(({ conversion_id }) => gone.has(conversion_id));
  const heirs = going.map((line) => heirOf(lines, line)).filter((line) => line !== undefined);
  const isOfValue = kind === "credited" && line_value_minor > 0n;
  const giving = isOfValue ? givingWay(lines.filter((line) => !going.includes(line))) : [];
  const moved = going.length === 0 ? [] : movedBy(lines, going).map(({ part }) => part.line);
  return [...heirs, ...giving, ...moved].flatMap(({ conversion_id, at, pays }) => {
    const period = pays === null ? "month" : pays.cap?.period;
    const key = conversionKey(conversion_id);
    return period === undefined ? [key] : [key, periodKey(period, at, contract_segment, counts_as)];
  });
};
const keysOfCap = ({ line, cap_period, contract_segment, counts_as }: EarnedSale): readonly string[] =>
  line === null || cap_period === null
    ? []
    : [periodKey(cap_period, line.at, contract_segment, counts_as ?? line.event_type)];

/**
 * The most sales that lie beside a customer's first one, and the most of a month that lie in a
 * value of their own. No value grows beyond that.
 */
export const SALES_TOGETHER = 8;
export const SALES_OF_MONTH = 64;

/** True if nothing is left of the line. */
export const isGone = ({ kind, refunded_minor, line_value_minor }: Conversion): boolean =>
  kind === "reversed" && refunded_minor >= line_value_minor;

export type CommissionMemory = Readonly<Record<string, RememberedMoney>>;

/**
 * One value each for a conversion, for a period of a contract's segment and type, for a customer,
 * for a customer's month, and for an order. None of them grows with the number of a partner's
 * sales.
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
export const customerMonthIn = (memory: CommissionMemory, key: string): CustomerMonth | undefined => {
  const kept = memory[key];
  return kept?.is === "customer_month" ? kept : undefined;
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
