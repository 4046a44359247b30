// Merges a further copy into the line that it is a copy of: the new value of the line, why it is
// held, and which copies are remembered.
import { divideHalfEven } from "../../../domain/money.ts";
import type { Claim, EventAttributed } from "../../../schemas/generated.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { ChangedLine } from "../change-lines.ts";
import { leadIdOf, productKeyOf } from "../match-line.ts";
import {
  DISPUTED,
  happenedAt,
  isClaimedByAnother,
  isCredited,
  isHeldByTotal,
  isSameProduct,
  isTotal,
  isUnnamed,
  isWithoutProduct,
  type Line,
  type OrderState,
  ownReviewOf,
  productOf,
  refundableId,
  rowOf,
  rowText,
  saleValueOf,
  withClaim,
} from "../order.ts";
import { mergeCopy, moneyOf, nextRow } from "./merge-copy.ts";
import { isOfClient, isOfPartner, type OrderWord, segmentAfter } from "./segment.ts";

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
  if (line.is_decided || ownReviewOf(line) !== null) return null;
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
export const withCopy = (
  { copies, copied }: Line,
  eventId: string,
  { refunds }: OrderState,
): Pick<Line, "copies" | "copied"> => {
  const all = [...copied, eventId];
  const isNamed = (id: string): boolean => refunds.some(({ line_event_id }) => line_event_id === id);
  const forgotten = all.length > MOST_COPIES ? all.find((id) => !isNamed(id)) : undefined;
  return { copies: copies + 1, copied: all.filter((id) => id !== forgotten) };
};

/** A further copy of a line, with its event time. */
export interface Copy {
  readonly row: EventAttributed;
  readonly at: UnixMs;
  /** The product that it names; empty if it names none. */
  readonly product_key: string;
  /** What it says of the segment if it is of the whole order. Null if it is of the line itself. */
  readonly orderWord: OrderWord | null;
}

/** A partner's amount gives way to one of the client's own systems, whatever their times are. */
const isMoneyOfPartner = ({ money_from }: Line, { event: first }: EventAttributed): boolean =>
  money_from === null ? isOfPartner(first) : money_from.by_partner === true;

/**
 * True if the copy may amend the amount of a server: it is not older than the copy that brought it,
 * and names the product of the line. The total of an order amends no line.
 */
const mayAmend = (line: Line, first: EventAttributed, copy: Copy): boolean => {
  const isOlder = copy.at < (line.money_from?.at ?? happenedAt(line));
  if (isUnnamed(copy) || (isOlder && !isMoneyOfPartner(line, first))) return false;
  if (isTotal(line)) return true;
  return !isTotal(copy) && (isUnnamed(line) || isSameProduct(line.product_key, copy.product_key));
};

/** The money after a copy. One of the same amount changes nothing, but is the newest word. */
const moneyAfter = (line: Line, row: EventAttributed, copy: Copy) => {
  const { event: first } = row;
  const { event } = copy.row;
  const money = moneyOf(first, event, { ...line, mayAmend: mayAmend(line, row, copy) });
  const from = { event_id: event.event_id, at: copy.at, ...(isOfPartner(event) && { by_partner: true as const }) };
  const isSame = money.value_minor === first.value_minor && money.currency === first.currency;
  return {
    money: line.has_server_money && isSame ? moneyOf(first, event, { ...line, mayAmend: false }) : money,
    money_from: money.takesMoney ? from : line.money_from,
    amended_by: money.takesMoney && !isSame ? event.event_id : line.amended_by,
    isOther: money.takesMoney && !isSame,
  };
};

/** The line with the money of its row after a copy. */
const withMoney = (
  line: Line,
  row: EventAttributed,
  { money, money_from, amended_by }: ReturnType<typeof moneyAfter>,
  copy: Copy,
) => {
  const value_minor = saleValueOf(row);
  const currency = row.event.currency ?? line.currency;
  return {
    ...line,
    value_minor,
    currency,
    has_server_money: line.has_server_money || (money.takesMoney && !copy.row.event.client_side),
    has_currency: line.has_currency || money.has_currency,
    money_from,
    amended_by,
    settled_minor: settledOf(line, value_minor, currency),
    // A refund of a line that had a value does not mean that the line, now worth nothing, was
    // returned.
    is_returned: line.is_returned && (value_minor > 0n || line.value_minor === 0n),
  };
};

const isWorthOtherwise = (before: Line, after: Line): boolean =>
  after.value_minor !== before.value_minor || after.currency !== before.currency;

/** A copy brings another amount than a server before (docs/design/money.md, rule 35). */
const AMENDED = "amended";
/** A copy changes amount, currency or segment, and amends no amount of a server. */
export const CHANGED_MONEY = "changed_money";

/**
 * Merges a further copy, which never counts as a separate sale. It fills fields that the first copy
 * lacked. A credited line keeps its partner, and is held for a decision if the copy credits another
 * partner.
 */
export const merged = (line: Line, copy: Copy, order: OrderState): ChangedLine => {
  const first = rowOf(line);
  const known = moneyAfter(line, first, copy);
  const takesCredit = line.status === "open" && !line.is_decided && isCredited(copy.row);
  const held = heldBy(line, first, copy.row, order);
  const segment = segmentAfter(line.segment_word, first.event, copy.row.event, copy.orderWord);
  const { product_line } = segment;
  const row = mergeCopy(first, copy.row, { ...known.money, product_line }, takesCredit);
  const paid = withMoney(line, row, known, copy);
  /** The segment selects the contract, so another segment changes money too. */
  const isMoneyChanged = isWorthOtherwise(line, paid) || product_line !== first.event.product_line;
  return {
    line: {
      ...paid,
      segment_word: segment.segment_word,
      claimed_by: line.claimed_by === null ? null : withClaim(line.claimed_by, copy.row),
      ...(isHeldByTotal(line) ? { held_for: held ?? line.held_for } : { review: held ?? line.review }),
      ...withCopy(line, refundableId(copy.row.event), order),
      row: row === first ? line.row : rowText(row),
    },
    row,
    isRewritten: row !== first,
    takesCredit,
    reason:
      known.isOther && line.has_server_money
        ? AMENDED
        : isMoneyChanged
          ? CHANGED_MONEY
          : line.review === null
            ? held
            : null,
  };
};

/**
 * A copy of the client's own systems that came too late to be merged still amends the amount of its
 * line and says its segment, and nothing else. Null for a copy of others.
 */
export const amended = (line: Line, copy: Copy, order: OrderState): ChangedLine | null => {
  const { event } = copy.row;
  if (!isOfClient(event)) return null;
  const first = rowOf(line);
  const known = moneyAfter(line, first, copy);
  const { product_line, segment_word } = segmentAfter(line.segment_word, first.event, event, copy.orderWord);
  const isOtherSegment = product_line !== first.event.product_line;
  const { value_minor, currency } = known.money;
  const row =
    known.isOther || isOtherSegment
      ? nextRow(first, {
          ...(known.isOther && { value_minor, currency, quantity: event.quantity ?? first.event.quantity }),
          product_line,
        })
      : first;
  const paid = known.money_from === line.money_from ? line : withMoney(line, row, known, copy);
  const text = row === first ? line.row : rowText(row);
  return {
    line: { ...paid, segment_word, ...withCopy(line, refundableId(event), order), row: text },
    row,
    isRewritten: row !== first,
    takesCredit: false,
    reason: isWorthOtherwise(line, paid) ? AMENDED : isOtherSegment ? CHANGED_MONEY : null,
  };
};

/** Counts a late copy in the lines that it is a copy of. */
export const counted = (order: OrderState, late: readonly Line[], eventId: string): readonly Line[] =>
  order.lines.map((line) => (late.includes(line) ? { ...line, ...withCopy(line, eventId, order) } : line));

const namedBy = (line: Line, product: string): string =>
  isWithoutProduct(line) && !line.stands && productOf(product) !== "" ? product : line.product_key;

/** The total of an order becomes the line of its product, and a lead gets its client's id. */
export const withIds = (touched: ChangedLine, claim: Claim): ChangedLine => ({
  ...touched,
  line: {
    ...touched.line,
    product_key: namedBy(touched.line, productKeyOf(claim)),
    lead_id: touched.line.lead_id ?? leadIdOf(claim),
  },
});
