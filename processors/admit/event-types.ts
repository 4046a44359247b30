// The event types that ingestion accepts, the props that each requires, and the prop that holds its
// amount of money.

import { memo } from "../../domain/memo.ts";

/**
 * `amount` is the prop that becomes value_minor. The required props follow the specification's
 * table ("Events"). A refund without an amount is a full refund; it must name an order or an event.
 */
export interface EventType {
  readonly required: readonly string[];
  readonly amount: "revenue" | "price" | "cart_value" | "lead_value" | "amount" | null;
}

const nothing: readonly string[] = [];
const TYPES: Readonly<Record<string, EventType>> = {
  page_view: { required: ["url"], amount: null },
  view_product: { required: ["product_id", "price"], amount: "price" },
  add_to_cart: { required: ["product_id", "price", "quantity"], amount: "price" },
  begin_checkout: { required: ["cart_value"], amount: "cart_value" },
  purchase: { required: ["order_id", "revenue", "product_id", "quantity"], amount: "revenue" },
  ext_purchase: { required: nothing, amount: "revenue" },
  install: { required: nothing, amount: null },
  lead_submit: { required: nothing, amount: "lead_value" },
  form_start: { required: nothing, amount: null },
  form_submit: { required: nothing, amount: null },
  refund: { required: nothing, amount: "amount" },
  click: { required: nothing, amount: null },
};
const types = new Map(Object.entries(TYPES));
export const eventTypes: readonly string[] = Object.keys(TYPES);

/** Undefined for a custom event, and for a text that is not a valid event name. */
export const eventTypeOf = (t: string): EventType | undefined => types.get(t);

const MONEY: ReadonlySet<string> = new Set(["purchase", "ext_purchase", "refund", "install", "lead_submit"]);

/** Whether events of this type are paid for: a quota that is spent refuses them last. */
export const isMoneyType = (t: string): boolean => MONEY.has(t);

/** Names that are accepted for custom events. */
export const CUSTOM_NAME = /^[a-z][a-z0-9_.:-]{0,63}$/;

/** The warning on a custom event whose name is almost that of a known type. */
export const NEAR_TYPE = "unknown_type_taken_as_custom";

/**
 * The largest edit distance that counts as a near miss. It is 1 for short types, because short
 * names are similar by chance.
 */
const mostApart = (type: string): number => (type.length < 6 ? 1 : 2);
const bare = (name: string): string => name.replace(/[^a-z0-9]/g, "");

/**
 * The edit distance of two short names: insertions, deletions, replacements and swapped neighbours.
 */
const distance = (one: string, two: string): number => {
  let before: number[] = [];
  let last = Array.from({ length: two.length + 1 }, (_, n) => n);
  for (let i = 1; i <= one.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= two.length; j += 1) {
      const isSame = one[i - 1] === two[j - 1];
      const isSwapped = i > 1 && j > 1 && one[i - 1] === two[j - 2] && one[i - 2] === two[j - 1];
      const swapped = isSwapped ? before[j - 2]! + 1 : Number.POSITIVE_INFINITY;
      row.push(Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (isSame ? 0 : 1), swapped));
    }
    before = last;
    last = row;
  }
  return last[two.length]!;
};

/** The known type closest to the name, or null if the name resembles none. */
export const nearTypeOf: (name: string) => string | null = memo(1_000, (name) => {
  const near = eventTypes
    .map((type) => ({ type, apart: distance(bare(name), bare(type)) }))
    .filter(({ type, apart }) => apart <= mostApart(type))
    .sort((a, b) => a.apart - b.apart);
  return near[0]?.type ?? null;
});
