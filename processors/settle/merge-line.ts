// Merges a further copy into the line that it is a copy of: the new value of the line, why it is
// held, and which copies are remembered.
import { divideHalfEven } from "../../domain/money.ts";
import type { Claim, EventAttributed } from "../../schemas/generated.ts";
import type { ChangedLine } from "./change-lines.ts";
import { leadIdOf, productKeyOf } from "./match-line.ts";
import { mergeCopy, moneyOf } from "./merge-copy.ts";
import {
  DISPUTED,
  isClaimedByAnother,
  isCredited,
  type Line,
  type OrderState,
  refundableId,
  rowOf,
  rowText,
  saleValueOf,
  withClaim,
} from "./order.ts";

const COPY_REJECTED = "copy_rejected";

const isRejected = ({ fraud }: EventAttributed): boolean => fraud.band === "reject";

/** The settled amount in another currency keeps its proportion of the line. */
const settledOf = (line: Line, valueMinor: bigint, currency: string): bigint => {
  if (currency !== line.currency)
    return line.value_minor === 0n ? 0n : divideHalfEven(line.settled_minor * valueMinor, line.value_minor);
  return line.settled_minor < valueMinor ? line.settled_minor : valueMinor;
};

/** Why a line must be held after this copy. Null if the reason for holding does not change. */
const heldBy = (line: Line, first: EventAttributed, copy: EventAttributed, order: OrderState): string | null => {
  if (line.is_decided || line.review !== null) return null;
  if (isRejected(first) !== isRejected(copy)) return COPY_REJECTED;
  // Whichever copy came first: one that is under review holds the sale.
  if (copy.fraud.band === "review") return "fraud_review";
  if (!isCredited(copy)) return null;
  const isDisputed =
    line.status === "open" ? isClaimedByAnother(order, copy) : copy.credit.partner_id !== line.partner_id;
  return isDisputed ? DISPUTED : null;
};

/**
 * A source may send one sale endlessly, so old copies are counted and then forgotten one by one. A
 * copy that a refund names is kept, because otherwise the refund would give back what it took.
 */
const MOST_COPIES = 20;
const withCopy = (
  { copies, copied }: Line,
  eventId: string,
  { refunds }: OrderState,
): Pick<Line, "copies" | "copied"> => {
  const all = [...copied, eventId];
  const isNamed = (id: string): boolean => refunds.some(({ line_event_id }) => line_event_id === id);
  const forgotten = all.length > MOST_COPIES ? all.find((id) => !isNamed(id)) : undefined;
  return { copies: copies + 1, copied: all.filter((id) => id !== forgotten) };
};

/**
 * Merges a further copy, which never counts as a separate sale. It fills fields that the first copy
 * lacked. A credited line keeps its partner, and is held for a decision if the copy credits another
 * partner.
 */
export const merged = (line: Line, copy: EventAttributed, order: OrderState): ChangedLine => {
  const first = rowOf(line);
  const money = moneyOf(first.event, copy.event, line);
  const takesCredit = line.status === "open" && !line.is_decided && isCredited(copy);
  const held = heldBy(line, first, copy, order);
  const row = mergeCopy(first, copy, money, takesCredit);
  const value = saleValueOf(row);
  const currency = row.event.currency ?? line.currency;
  /** The segment selects the contract, so filling in a missing segment changes money too. */
  const isMoneyChanged =
    value !== line.value_minor || currency !== line.currency || row.event.product_line !== first.event.product_line;
  const settled = settledOf(line, value, currency);
  return {
    line: {
      ...line,
      value_minor: value,
      currency,
      has_server_money: line.has_server_money || (money.takesMoney && !copy.event.client_side),
      has_currency: line.has_currency || money.has_currency,
      settled_minor: settled,
      // A refund of a line that had a value does not mean that the line, now worth nothing, was
      // returned.
      is_returned: line.is_returned && (value > 0n || line.value_minor === 0n),
      claimed_by: line.claimed_by === null ? null : withClaim(line.claimed_by, copy),
      review: held ?? line.review,
      ...withCopy(line, refundableId(copy.event), order),
      row: row === first ? line.row : rowText(row),
    },
    row,
    isRewritten: row !== first,
    takesCredit,
    reason: isMoneyChanged ? "changed_money" : held,
  };
};

/** Counts a late copy in the lines that it is a copy of. */
export const counted = (order: OrderState, late: readonly Line[], eventId: string): readonly Line[] =>
  order.lines.map((line) => (late.includes(line) ? { ...line, ...withCopy(line, eventId, order) } : line));

/** The total of an order becomes the line of its product, and a lead gets its client's id. */
export const withIds = (touched: ChangedLine, claim: Claim): ChangedLine => ({
  ...touched,
  line: {
    ...touched.line,
    product_key: touched.line.product_key === "" ? productKeyOf(claim) : touched.line.product_key,
    lead_id: touched.line.lead_id ?? leadIdOf(claim),
  },
});
