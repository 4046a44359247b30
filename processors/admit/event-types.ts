// The event types that ingestion knows, what each must bring, and which of its props is its amount
// of money.

/**
 * `amount`: the prop that becomes value_minor. Required props as in the specification's table
 * ("Events"); a refund without an amount is a full one, and names an order or an event.
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

/** Undefined: a custom event, or no name at all. */
export const eventTypeOf = (t: string): EventType | undefined => types.get(t);

/** Names that are taken as a custom event of that name. */
export const CUSTOM_NAME = /^[a-z][a-z0-9_.:-]{0,63}$/;
