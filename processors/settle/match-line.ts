// Finds the line of the order that a claim belongs to: it is a copy of one line, a copy of all
// lines, or a new line.

import { UNNAMED_PRODUCT } from "../../domain/ids.ts";
import { eventTimeOf } from "../../domain/money-time.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import { isOfEventAlone } from "../attribute/claims.ts";
import { MERGE_WINDOW_MS } from "./copies/merge-copy.ts";
import {
  happenedAt,
  hasWeakProduct,
  isSameProduct,
  isTotal,
  isUnnamed,
  isWithoutProduct,
  type Line,
  type OrderState,
  productOf,
  rowOf,
} from "./order.ts";
import { idIn, propsIn } from "./props.ts";
import { isWorthOf, TOLERANCE_MINOR, type Worth, worthOfEvent, worthOfLine } from "./totals/worth.ts";

export type Meets =
  | { readonly kind: "copy"; readonly line: Line }
  /** The claim names no product, and the order has several lines. */
  | { readonly kind: "copy_of_all"; readonly lines: readonly Line[] }
  /**
   * `unnamed` is the line whose product is a placeholder, if the new one may be the same.
   * `isUnsure`: the new one is held for it.
   */
  | { readonly kind: "new"; readonly unnamed: Line | null; readonly isUnsure: boolean };

/** An order has a line for each product and name. Every other key identifies a single thing. */
export const productKeyOf = ({ order_key, attributed }: Claim): string =>
  !order_key.startsWith("o:")
    ? ""
    : hasWeakProduct(attributed.event)
      ? UNNAMED_PRODUCT
      : productOf(attributed.event.product_id);
export const nameOf = ({ order_key, attributed }: Claim): string | null =>
  order_key.startsWith("o:") && attributed.event.t === "custom" ? attributed.event.custom_name : null;
export const isLead = ({ order_key }: Claim): boolean => order_key.startsWith("l:");
export const leadIdOf = (claim: Claim): string | null =>
  isLead(claim) ? idIn(propsIn(claim.attributed.event).client_lead_id) : null;

/**
 * A lead id identifies a lead for ever. If one of two leads has no id, they are the same lead
 * within 48 hours of each other, by the times of the events, whatever dates their money.
 */
const leadMet = (lines: readonly Line[], leadId: string | null, at: UnixMs): Line | undefined => {
  const same = leadId === null ? undefined : lines.find(({ lead_id }) => lead_id === leadId);
  if (same !== undefined) return same;
  const distance = (line: Line): number => Math.abs(happenedAt(line) - at);
  return lines
    .filter((line) => (line.lead_id === null || leadId === null) && distance(line) <= MERGE_WINDOW_MS)
    .sort((a, b) => distance(a) - distance(b))[0];
};

/** The `at` of a claim that was dated is the time of its money. */
export const timeOfEvent = ({ at, data }: Pick<Recorded<Claim>, "at" | "data">): UnixMs =>
  data.dated_by === null ? at : eventTimeOf({ at, data: data.attributed });

/** A total is compared as one, a line exactly. */
const isWorthTheSame = (worth: Worth, line: Line): boolean =>
  isWorthOf([worth], worthOfLine(line), isTotal(line) ? TOLERANCE_MINOR : 0n);

const copyOf = (line: Line): Meets => ({ kind: "copy", line });
const copyOfAll = (lines: readonly Line[]): Meets =>
  lines.length === 1 ? copyOf(lines[0]!) : { kind: "copy_of_all", lines };
const isMerged = (line: Line, receivedAt: UnixMs): boolean =>
  Math.abs(receivedAt - line.received_at) <= MERGE_WINDOW_MS;

/** The lines that come to a total, if any do. One that is unnamed may be counted twice in them. */
export const linesOfWorth = (lines: readonly Line[], worth: Worth): readonly Line[] => {
  if (isWorthOf(lines.map(worthOfLine), worth)) return lines;
  const named = lines.filter((line) => !isUnnamed(line));
  return named.length < lines.length && named.length > 0 && isWorthOf(named.map(worthOfLine), worth) ? named : [];
};

/**
 * A sender's id alone makes no copy: strangers send events of any type under it in the name of a
 * page.
 */
const isOfItsType = (line: Line, { order_key, attributed: { event } }: Claim): boolean => {
  if (!isOfEventAlone(order_key)) return true;
  const first = rowOf(line).event;
  return first.t === event.t && first.custom_name === event.custom_name;
};

/**
 * If the order is stored in parts, `lines` holds only the lines of the claim's product and the
 * total.
 */
export const meet = (claim: Recorded<Claim>, { lines, parts }: Pick<OrderState, "lines" | "parts">): Meets => {
  const { receivedAt, data } = claim;
  const none: Meets = { kind: "new", unnamed: null, isUnsure: false };
  if (isLead(data)) {
    const lead = leadMet(lines, leadIdOf(data), timeOfEvent(claim));
    return lead === undefined ? none : copyOf(lead);
  }
  const product = productKeyOf(data);
  const name = nameOf(data);
  const same = lines.filter((line) => line.name === name && isOfItsType(line, data));
  const known =
    same.find(({ product_key }) => product_key === product) ??
    same.find(({ product_key }) => isSameProduct(product_key, product));
  if (known !== undefined) return copyOf(known);
  const total = same.find(isTotal);
  // A decision about a sale without a product means the one that is there.
  const unnamed = same.find(isUnnamed);
  if (data.decision !== null && unnamed !== undefined && productOf(product) === "") return copyOf(unnamed);
  if (total?.stands === true) return copyOf(total);
  if (same.length === 0) return none;
  // It reads the props, which few sales need.
  const worth = (): Worth => worthOfEvent(data.attributed.event);
  if (product === UNNAMED_PRODUCT) {
    const alike = same.filter((line) => isWorthTheSame(worth(), line));
    return alike.length > 0 ? copyOfAll(alike) : { ...none, isUnsure: same.length > 0 };
  }
  if (product === "") {
    // A decision names lines, whatever they are worth. Lines that stand have no total any more.
    const isOther = data.decision === null && same.every((line) => isMerged(line, receivedAt) && !line.stands);
    const met = isOther ? linesOfWorth(same, worth()) : same;
    if (met.length > 0) return copyOfAll(met);
  } else {
    const [only] = same.filter(isWithoutProduct);
    const isAlone = same.length + (parts?.absent.get(name) ?? 0) === 1;
    if (isAlone && only !== undefined && isMerged(only, receivedAt) && isWorthTheSame(worth(), only))
      return copyOf(only);
  }
  if (unnamed === undefined) return none;
  // The one that should have named its product waits for a person, whichever came first.
  const isHeldThere = isHoldable(unnamed, receivedAt) || (unnamed.review !== null && !isGivenToNone(unnamed));
  return { kind: "new", unnamed, isUnsure: !isHeldThere && product !== "" };
};

/** A person has decided that no partner earns it, so it waits for nothing. */
export const isGivenToNone = ({ is_decided, partner_id }: Line): boolean => is_decided && partner_id === null;

/** What a person has decided about, and what has stood for 48 h, is not held. */
export const isHoldable = ({ is_decided, review, received_at }: Line, receivedAt: UnixMs): boolean =>
  !is_decided && review === null && receivedAt - received_at <= MERGE_WINDOW_MS;
