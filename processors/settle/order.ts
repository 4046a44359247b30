// The memory of settle about one order: its lines and their partners, and the refunds and decisions
// that may still change something.
import { meetingId, sharedEventId } from "../../domain/ids.ts";
import type { Decision, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import { plainEvent } from "../../schemas/generated-fields.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { isOfEventAlone, orderKeyOf } from "../attribute/claims.ts";
import type { SegmentWord } from "./copies/segment.ts";

/** The currency of money that names none (docs/design/contracts.md, "Answers"). */
export const DEFAULT_CURRENCY = "MXN";

/**
 * A line of an order, identified by one conversion key. Fields share their names with those of
 * records.
 */
export interface Line {
  /** The number of the line in order of arrival, starting at 0. */
  readonly number: number;
  /** The product_id. Empty for a line without a product, and for anything that is not an order. */
  readonly product_key: string;
  /** The name of the custom event. Null for purchases, and for anything that is not an order. */
  readonly name: string | null;
  /** The client's own id of a lead, which keeps two leads of one person apart. */
  readonly lead_id: string | null;
  /**
   * open: no partner is credited. credited: `partner_id` is. reversed: a partner was, and
   * everything has been taken back.
   */
  readonly status: "open" | "credited" | "reversed";
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  /** The event id of the first copy, which created the sale. */
  readonly event_id: string;
  /** The time that dates its money. */
  readonly at: UnixMs;
  /**
   * Whose time that is, why not the event's, and the event's. Null for a line of before times were
   * judged: `at` is the event's, and the hold runs from it.
   */
  readonly dated: { readonly by: string; readonly because: string | null; readonly event_at: UnixMs } | null;
  readonly received_at: UnixMs;
  readonly value_minor: bigint;
  readonly currency: string;
  /** True if the amount came from a server, so that no copy by a browser changes it. */
  readonly has_server_money: boolean;
  /** The copy that brought the amount, and its event time. Null: the first copy did. */
  readonly money_from: { readonly event_id: string; readonly at: UnixMs; readonly by_partner?: true } | null;
  /** Whose word its segment is. Null: it follows from the row of the first copy. */
  readonly segment_word: SegmentWord | null;
  /** The copy that last brought another amount than the one before it; null if none did. */
  readonly amended_by: string | null;
  /**
   * True if a copy named the currency. False means that the props of the first copy must be
   * checked.
   */
  readonly has_currency: boolean;
  readonly refunded_minor: bigint;
  /** The amount refunded before refunds were stored whole (format 1). It is never spread again. */
  readonly settled_minor: bigint;
  readonly refund_reason: string | null;
  /**
   * True if the whole line has been refunded. Needed because a line worth nothing has no refund
   * amount.
   */
  readonly is_returned: boolean;
  /**
   * Partners that its copies were credited to. Null if the line was stored before this field
   * existed.
   */
  readonly claimed_by: readonly number[] | null;
  /** Why the commission is held. */
  readonly review: string | null;
  /** Why it is held beside that, while a total and lines of another worth hold it first. */
  readonly held_for: string | null;
  /** True if a person said that this total stands, or this line against a total. */
  readonly stands: boolean;
  /** The total that was merged into this line and others. */
  readonly total_from: string | null;
  /**
   * True if a decision set the partner. Then only another decision changes it, and no copy or later
   * finding does.
   */
  readonly is_decided: boolean;
  /** Who held the line after each of the newest decisions that set its partner. */
  readonly holders: readonly Holder[];
  /**
   * True if a decision credited it without a recalculation: it earns nothing, whatever touches it,
   * until a decision that recalculates credits it again.
   */
  readonly earns_nothing: boolean;
  /** The newest conversion of this line, and the version of its newest record. */
  readonly conversion_id: string | null;
  readonly conversion_version: number;
  /**
   * When the claim that credited the line was received, which selects its contract. Null means with
   * the line's first copy.
   */
  readonly known_at: UnixMs | null;
  /** The number of further copies that arrived. */
  readonly copies: number;
  /** The event ids of the newest copies, and of all copies that a refund names. */
  readonly copied: readonly string[];
  /**
   * The last written row of the first copy, as text: few lines are ever touched again, so few rows
   * are ever parsed.
   */
  readonly row: string;
}

/** By them a reprocess knows who held a line when another one came. */
export interface Holder {
  readonly decision_id: string;
  readonly partner_id: number | null;
}

/** A refund as requested. How much it takes of each line depends on all lines and refunds. */
export interface Refund {
  readonly event_id: string;
  /** Null for a refund of the whole order. */
  readonly product_key: string | null;
  /**
   * The event that the refund names: the first copy of its line, or another copy. Null if it names
   * none.
   */
  readonly line_event_id: string | null;
  /** Null for a full refund. */
  readonly amount_minor: bigint | null;
  /**
   * Null means the currency of the sale. The amount then has the digits of the default currency.
   */
  readonly currency: string | null;
  readonly reason: string;
  readonly received_at: UnixMs;
  /** The shop's own id, by which copies of one refund are recognised. */
  readonly refund_id: string | null;
  /** The source of its event. Null if the refund was stored before this field existed. */
  readonly source: string | null;
  /**
   * The event id of the refund that another source reported alike: this one takes nothing until a
   * person or a refund_id tells them apart (docs/design/money.md, rule 39). Null if it counts.
   */
  readonly twin_of: string | null;
  /** True if a person has decided that both are one refund. It then never counts. */
  readonly is_twin: boolean;
  /** It was held as a twin until this claim, and counts since. A reprocess needs it. */
  readonly was_twin: { readonly of: string; readonly until: string } | null;
  /**
   * The last written row of the refund, kept while the sale may still supply its currency or order.
   */
  readonly row: string | null;
}

/**
 * A decision that may also apply to lines that arrive later, because its line is missing or because
 * it is about the whole order.
 */
export interface WaitingDecision {
  /** Null for a decision about the whole order. */
  readonly product_key: string | null;
  /** The name of the custom event whose line the decision is about. */
  readonly name: string | null;
  /** The event id of the line that the decision is about. */
  readonly event_id: string | null;
  readonly decision: Decision;
  /**
   * True if its line has come, so that it waits no more. A reprocess that settles that line again
   * needs it again.
   */
  readonly is_taken: boolean;
}

/** An event without a line that a decision was made about, with its last written row as text. */
interface DecidedEvent {
  readonly event_id: string;
  readonly row: string;
}

/**
 * What was said of an order since a row of a file first did, so that the undo of that file can
 * withdraw it. Null for every other order, and for one that only such a row has made so far: its
 * line says the same.
 */
export interface Words {
  /** The order before the first of these claims, encoded. Null if there was nothing of it. */
  readonly base: string | null;
  /** The claims as text, in the order of arrival. They are parsed only when one is withdrawn. */
  readonly claims: readonly string[];
  /** The rows that they have written: the newest version of each, and a hash of its content. */
  readonly written: readonly WrittenRow[];
}
/** An order with more lines is not settled again when a row of a file is withdrawn. */
export const MOST_LINES_REPLAYED = 16;
export interface WrittenRow {
  readonly event_id: string;
  readonly version: number;
  readonly content: string;
}

export interface OrderState {
  readonly lines: readonly Line[];
  readonly refunds: readonly Refund[];
  /** Those that wait, and those that have waited, in the order in which they were made. */
  readonly decisions: readonly WaitingDecision[];
  readonly events: readonly DecidedEvent[];
  /** Every partner that a copy of a line was credited to. */
  readonly claimed_by: readonly number[];
  /**
   * Counts of what is stored in parts that were not loaded. Null if the order is stored in one
   * value.
   */
  readonly parts: Parts | null;
  readonly words: Words | null;
  /** The newest events whose words were withdrawn. A reprocess must not settle them again. */
  readonly withdrawn: readonly string[];
}

/**
 * Counts of the lines and refunds that were not loaded. A claim loads only the parts of a large
 * order that it needs.
 */
export interface Parts {
  /** The number of lines that were not loaded, by name. */
  readonly absent: ReadonlyMap<string | null, number>;
  /** The number of refunds that were not loaded. */
  readonly refunds: number;
  /**
   * By partner: the number of lines that were not loaded and whose claims may still earn. Null if
   * the order was stored before this field existed, or if a line does not know its claims.
   */
  readonly claims: ReadonlyMap<number, number> | null;
  /** True if a refund names no product, so that it may affect every line. */
  readonly has_refunds_of_all: boolean;
  /** Totals that lines may still come to, with the worth of the lines that were not loaded. */
  readonly totals: readonly AwaitedTotal[];
  /**
   * The parts that hold a line or refund whose product id was stored before ids had one spelling.
   * Null if nothing has looked for them yet.
   */
  readonly spelled_otherwise: readonly number[] | null;
}

/** The total of an order in parts: a claim needs all lines only if they may come to it. */
export interface AwaitedTotal {
  readonly name: string | null;
  readonly value_minor: bigint;
  readonly currency: string;
  readonly received_at: UnixMs;
  /** The sum of the lines that were not loaded, whatever their currency. */
  readonly lines_minor: bigint;
  /** True if any line is not in the currency of the total, so that the sums say nothing. */
  readonly is_mixed: boolean;
}

/** The product as lines meet by it. Empty if none is named. */
export const productOf = (productId: string | null): string => meetingId(productId) ?? "";
/**
 * Lines of before ids had one spelling keep the product id that was sent. A line that should have
 * named its product is no total.
 */
export const isSameProduct = (a: string, b: string): boolean =>
  a === b || (a !== "" && b !== "" && productOf(a) === productOf(b));
/**
 * True for a sale whose product is a placeholder. It is of a part of its order, but does not say of
 * which; a sale that names no product is of the whole order.
 */
export const hasWeakProduct = ({ product_id, warnings }: Pick<EventReceived, "product_id" | "warnings">): boolean =>
  warnings.includes("weak_product_id") || (product_id !== null && product_id !== "" && productOf(product_id) === "");
type OfProduct = Pick<Line, "product_key">;
/** True for the line of the whole order. */
export const isTotal = ({ product_key }: OfProduct): boolean => product_key === "";
/** True for a total, and for a part of the order that a placeholder should have named. */
export const isWithoutProduct = ({ product_key }: OfProduct): boolean => productOf(product_key) === "";
/** True for that part alone. */
export const isUnnamed = (line: OfProduct): boolean => isWithoutProduct(line) && !isTotal(line);

export const emptyOrder: OrderState = {
  lines: [],
  refunds: [],
  decisions: [],
  events: [],
  claimed_by: [],
  parts: null,
  words: null,
  withdrawn: [],
};

/** The number of lines, including those that were not loaded. */
export const linesIn = ({ lines, parts }: OrderState): number =>
  [...(parts?.absent.values() ?? [])].reduce((sum, count) => sum + count, lines.length);

export const refundsIn = ({ refunds, parts }: OrderState): number => refunds.length + (parts?.refunds ?? 0);

/**
 * The limit on refunds, on decisions that wait or waited, and on other decided events of an order:
 * this many more than it has lines. All of them are remembered for ever.
 */
export const MOST_BESIDE_LINES = 200;
const bounded: readonly ((order: OrderState) => number)[] = [
  refundsIn,
  ({ decisions }) => decisions.length,
  ({ events }) => events.length,
];
/** True if a claim exceeds one of these limits. */
export const outgrows = (before: OrderState, after: OrderState): boolean =>
  bounded.some((count) => count(after) > count(before) && count(after) > MOST_BESIDE_LINES + linesIn(after));

/** `knownAt` as a line keeps it: most lines are credited by their first copy, which is null. */
export const knownAtOf = (receivedAt: UnixMs, knownAt: UnixMs | null): UnixMs | null =>
  knownAt === receivedAt ? null : knownAt;

/** An order's lines count as complete this long after its first line was received. */
export const COMPLETE_AFTER_MS = 48 * 3_600_000;
export const firstReceiptOf = (lines: readonly Line[]): UnixMs =>
  lines.reduce((first, { received_at }) => Math.min(first, received_at), Number.POSITIVE_INFINITY);

/**
 * JSON has no bigint, so amounts are copied as text. That costs a tenth of a replacer, which is
 * called for every field.
 */
export const rowText = (row: EventAttributed): string =>
  JSON.stringify({ ...row, event: plainEvent(row.event), refunded_minor: row.refunded_minor?.toString() });

export const rowOf = (line: Pick<Line, "row">): EventAttributed => rowFrom(JSON.parse(line.row));

/** Fills in what `rowText` has made of a row, in place. */
export const rowFrom = (row: any): EventAttributed => {
  if (row.event.value_minor !== null) row.event.value_minor = BigInt(row.event.value_minor);
  row.refunded_minor = row.refunded_minor == null ? null : BigInt(row.refunded_minor);
  return row;
};

/**
 * The id by which a refund names the event: that of the sender's id, also for a conversion of a
 * page, whose own id is another one (domain/ids.ts). A page's event that stands under the sender's
 * id alone is not named by it: a stranger may have sent it to catch the refund of another event of
 * that id. The look-up, which sees all of them, names it by its own id if it is meant.
 */
export const refundableId = (event: EventReceived): string =>
  isOfEventAlone(orderKeyOf(event)) ? event.event_id : sharedEventId(event);

/**
 * The same of a line's first copy, whose row is parsed for it. Only refunds that name an event need
 * it, and they are few.
 */
export const refundableIdOf = (line: Line): string => {
  const known = refundableIds.get(line);
  if (known !== undefined) return known;
  const id = refundableId(rowOf(line).event);
  refundableIds.set(line, id);
  return id;
};
const refundableIds = new WeakMap<Line, string>();

/** When the sale happened, whatever dates its money. */
export const happenedAt = ({ dated, at }: Pick<Line, "dated" | "at">): UnixMs => dated?.event_at ?? at;

/** Why a line is held: another partner has claimed its order. */
export const DISPUTED = "claimed_by_another_partner";

/** Why a total and lines of another worth are held: one of both would be paid twice. */
export const DISPUTED_TOTAL = "disputed_total";
/**
 * Why a line is held whose product is a placeholder, or the one beside it: it may be counted twice.
 * Before revision 3, totals and lines of another worth were held for it too. A release ends it.
 */
export const TOTAL_AND_LINES = "order_total_and_lines";
export const isHeldByTotal = (line: Pick<Line, "review" | "product_key">): boolean =>
  line.review === DISPUTED_TOTAL || (line.review === TOTAL_AND_LINES && isTotal(line));

/** Why a line is held by itself, whatever its order's total says. */
export const ownReviewOf = (line: Pick<Line, "review" | "held_for" | "product_key">): string | null =>
  isHeldByTotal(line) ? line.held_for : line.review;

export const isCredited = ({ credit }: EventAttributed): boolean =>
  credit.status === "attributed" && credit.partner_id !== null;
export const saleValueOf = ({ event }: EventAttributed): bigint =>
  event.value_minor !== null && event.value_minor > 0n ? event.value_minor : 0n;

/** The partners who claim an order or line, with the one whom this row credits. */
export const withClaim = (claimedBy: readonly number[], row: EventAttributed): readonly number[] =>
  !isCredited(row) || claimedBy.includes(row.credit.partner_id!) ? claimedBy : [...claimedBy, row.credit.partner_id!];

/**
 * The partners whose claim on the line may still earn, and so holds another's: none if the line is
 * worth nothing or was wholly given back, and only its own partner once a decision has set it. Null
 * if the line does not know its claims.
 */
export const earningClaims = (line: Line): readonly number[] | null => {
  const { value_minor, is_returned, is_decided, partner_id, claimed_by } = line;
  if (value_minor === 0n || is_returned) return [];
  if (is_decided) return partner_id === null ? [] : [partner_id];
  return claimed_by;
};

/** Where claims are not known by line, every partner who ever claimed the order counts. */
const claimantsOf = ({ lines, parts, claimed_by }: OrderState): readonly number[] => {
  const claims = lines.map(earningClaims);
  if (claims.includes(null) || (parts !== null && parts.claims === null)) return claimed_by;
  return [...claims.flatMap((one) => one ?? []), ...(parts?.claims?.keys() ?? [])];
};

/**
 * True if another partner has a claim on any line of the order that may still earn. The claim then
 * waits for a person.
 */
export const isClaimedByAnother = (order: OrderState, row: EventAttributed): boolean =>
  isCredited(row) && claimantsOf(order).some((partner) => partner !== row.credit.partner_id);

type Claims = Parts["claims"];
export const noClaims: Claims = new Map();

/**
 * Adds or removes the claims of these lines that may still earn. Null if a line does not know its
 * claims.
 */
export const countClaims = (lines: readonly Line[], counts: Claims, sign: 1 | -1): Claims => {
  const claims = lines.map(earningClaims);
  if (counts === null || claims.includes(null)) return null;
  const summed = new Map(counts);
  for (const partner of claims.flatMap((one) => one ?? [])) summed.set(partner, (summed.get(partner) ?? 0) + sign);
  return new Map([...summed].filter(([, count]) => count > 0));
};

/** True if both count alike. */
export const isClaimedAlike = (before: readonly Line[], after: readonly Line[]): boolean => {
  if (before === after) return true;
  const [was, is] = [before, after].map((lines) => countClaims(lines, noClaims, 1));
  if (was == null || is == null) return was === is;
  return was.size === is.size && [...was].every(([partner, count]) => is.get(partner) === count);
};
