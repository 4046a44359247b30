// The memory of settle about one order: its lines and their partners, and the refunds and decisions
// that may still change something.
import { sentEventId } from "../../domain/ids.ts";
import type { Decision, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";

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
  /** The time of the sale. */
  readonly at: UnixMs;
  readonly received_at: UnixMs;
  readonly value_minor: bigint;
  readonly currency: string;
  /** True if the amount came from a server, so that no later copy changes it. */
  readonly has_server_money: boolean;
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
  /**
   * True if a decision set the partner. Then only another decision changes it, and no copy or later
   * finding does.
   */
  readonly is_decided: boolean;
  /**
   * True if a decision credited it without a recalculation: it earns nothing, whatever touches it,
   * until a decision that recalculates credits it again.
   */
  readonly earns_nothing: boolean;
  /** The newest conversion of this line, and the version of its newest record. */
  readonly conversion_id: string | null;
  readonly conversion_version: number;
  /**
   * When the claim that credited the line was received, which selects its contract. Null if not
   * stored yet.
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
}

/** An event without a line that a decision was made about, with its last written row as text. */
interface DecidedEvent {
  readonly event_id: string;
  readonly row: string;
}

export interface OrderState {
  readonly lines: readonly Line[];
  readonly refunds: readonly Refund[];
  readonly decisions: readonly WaitingDecision[];
  readonly events: readonly DecidedEvent[];
  /** Every partner that a copy of a line was credited to. */
  readonly claimed_by: readonly number[];
  /**
   * Counts of what is stored in parts that were not loaded. Null if the order is stored in one
   * value.
   */
  readonly parts: Parts | null;
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
  /** True if a refund names no product, so that it may affect every line. */
  readonly has_refunds_of_all: boolean;
}

export const emptyOrder: OrderState = {
  lines: [],
  refunds: [],
  decisions: [],
  events: [],
  claimed_by: [],
  parts: null,
};

/** The number of lines, including those that were not loaded. */
export const linesIn = ({ lines, parts }: OrderState): number =>
  [...(parts?.absent.values() ?? [])].reduce((sum, count) => sum + count, lines.length);

export const refundsIn = ({ refunds, parts }: OrderState): number => refunds.length + (parts?.refunds ?? 0);

/**
 * The limit on refunds, on waiting decisions and on other decided events of an order: this many
 * more than it has lines. All of them are remembered for ever.
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

/** An order's lines count as complete this long after its first line was received. */
export const COMPLETE_AFTER_MS = 48 * 3_600_000;
export const firstReceiptOf = (lines: readonly Line[]): UnixMs =>
  lines.reduce((first, { received_at }) => Math.min(first, received_at), Number.POSITIVE_INFINITY);

/**
 * JSON has no bigint, so amounts are copied as text. That costs a tenth of a replacer, which is
 * called for every field.
 */
export const rowText = (row: EventAttributed): string => {
  const { event, refunded_minor } = row;
  const plain = event.value_minor === null ? event : { ...event, value_minor: event.value_minor.toString() };
  return JSON.stringify({ ...row, event: plain, refunded_minor: refunded_minor?.toString() });
};

export const rowOf = (line: Pick<Line, "row">): EventAttributed => {
  const row = JSON.parse(line.row);
  if (row.event.value_minor !== null) row.event.value_minor = BigInt(row.event.value_minor);
  row.refunded_minor = row.refunded_minor == null ? null : BigInt(row.refunded_minor);
  return row;
};

/**
 * The id by which a refund names the event: that of the sender's id, also for a conversion of a
 * page, whose own id is another one (domain/ids.ts).
 */
export const refundableId = ({ client_id, client_side, sender_event_id, event_id }: EventReceived): string =>
  client_side && sender_event_id !== null ? sentEventId(client_id, sender_event_id) : event_id;

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

/** Why a line is held: another partner has claimed its order. */
export const DISPUTED = "claimed_by_another_partner";

export const isCredited = ({ credit }: EventAttributed): boolean =>
  credit.status === "attributed" && credit.partner_id !== null;
export const saleValueOf = ({ event }: EventAttributed): bigint =>
  event.value_minor !== null && event.value_minor > 0n ? event.value_minor : 0n;

/** The partners who claim an order or line, with the one whom this row credits. */
export const withClaim = (claimedBy: readonly number[], row: EventAttributed): readonly number[] =>
  !isCredited(row) || claimedBy.includes(row.credit.partner_id!) ? claimedBy : [...claimedBy, row.credit.partner_id!];

/**
 * True if another partner has already claimed any line of the order. The claim then waits for a
 * person.
 */
export const isClaimedByAnother = (order: OrderState, row: EventAttributed): boolean =>
  isCredited(row) && order.claimed_by.some((partner) => partner !== row.credit.partner_id);
