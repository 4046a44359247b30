// Finds the line of the order that a claim belongs to: it is a copy of one line, a copy of all
// lines, or a new line.

import type { Claim, EventAttributed } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import { MERGE_WINDOW_MS } from "./merge-copy.ts";
import { type Line, type OrderState, rowOf } from "./order.ts";
import { idIn, namesCurrency, propsIn } from "./props.ts";
import { inDigitsOf } from "./spread.ts";

export type Meets =
  | { readonly kind: "copy"; readonly line: Line }
  /** The claim names no product, and the order has several lines. */
  | { readonly kind: "copy_of_all"; readonly lines: readonly Line[] }
  /** `total` is the existing line for the whole order, if there is one. */
  | { readonly kind: "new"; readonly total: Line | null };

/** An order has a line for each product and name. Every other key identifies a single thing. */
export const productKeyOf = ({ order_key, attributed }: Claim): string =>
  order_key.startsWith("o:") ? (attributed.event.product_id ?? "") : "";
export const nameOf = ({ order_key, attributed }: Claim): string | null =>
  order_key.startsWith("o:") && attributed.event.t === "custom" ? attributed.event.custom_name : null;
export const isLead = ({ order_key }: Claim): boolean => order_key.startsWith("l:");
export const leadIdOf = (claim: Claim): string | null =>
  isLead(claim) ? idIn(propsIn(claim.attributed.event).client_lead_id) : null;

/**
 * A lead id identifies a lead for ever. If one of two leads has no id, they are the same lead
 * within 48 hours.
 */
const leadMet = (lines: readonly Line[], leadId: string | null, at: UnixMs): Line | undefined => {
  const same = leadId === null ? undefined : lines.find(({ lead_id }) => lead_id === leadId);
  if (same !== undefined) return same;
  const distance = (line: Line): number => Math.abs(line.at - at);
  return lines
    .filter((line) => (line.lead_id === null || leadId === null) && distance(line) <= MERGE_WINDOW_MS)
    .sort((a, b) => distance(a) - distance(b))[0];
};

/** True also if one of them has no amount. */
const isWorthTheSame = (line: Line, { event }: EventAttributed): boolean => {
  const first = rowOf(line).event;
  if (first.value_minor === null || event.value_minor === null) return true;
  const [a, b] = [first, event].map((one) => ({
    ...one,
    isNamed: namesCurrency(one) || (one === first && line.has_currency),
  }));
  const currency = (a!.isNamed ? a : b!.isNamed ? b : a)!.currency;
  const [ours, theirs] = [a!, b!].map((one) =>
    one.currency === currency ? one.value_minor : one.isNamed ? null : inDigitsOf(one.value_minor!, currency!),
  );
  return ours !== null && ours === theirs;
};

/**
 * If the order is stored in parts, `lines` holds only the lines of the claim's product and the
 * total.
 */
export const meet = (
  { at, receivedAt, data }: Recorded<Claim>,
  { lines, parts }: Pick<OrderState, "lines" | "parts">,
): Meets => {
  const copyOf = (line: Line | undefined): Meets =>
    line === undefined ? { kind: "new", total: null } : { kind: "copy", line };
  if (isLead(data)) return copyOf(leadMet(lines, leadIdOf(data), at));
  const product = productKeyOf(data);
  const name = nameOf(data);
  const same = lines.filter((line) => line.name === name);
  const known = same.find(({ product_key }) => product_key === product);
  if (known !== undefined) return copyOf(known);
  if (product === "") return same.length > 1 ? { kind: "copy_of_all", lines: same } : copyOf(same[0]);
  const total = same.find(({ product_key }) => product_key === "");
  if (total === undefined) return { kind: "new", total: null };
  const isInTime = Math.abs(receivedAt - total.received_at) <= MERGE_WINDOW_MS;
  const isAlone = same.length + (parts?.absent.get(name) ?? 0) === 1;
  return isAlone && isInTime && isWorthTheSame(total, data.attributed) ? copyOf(total) : { kind: "new", total };
};
