// What settle remembers of one order: its lines, who holds them, and the refunds and decisions that
// still wait for something to change.
import type { Decision, EventAttributed } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";

/** Money without a currency is in this one (docs/design/contracts.md, "Answers"). */
export const DEFAULT_CURRENCY = "MXN";

/**
 * A line of an order: what one conversion key names. Fields that a record has too bear its names.
 */
export interface Line {
  /** Its place among the lines of the order, as they came: 0 is the first. */
  readonly number: number;
  /** product_id, or empty: for a line without a product, and for whatever is no order. */
  readonly product_key: string;
  /** The name of the custom event whose line it is; null: of purchases, and of what is no order. */
  readonly name: string | null;
  /** The client's own id of a lead, by which two leads of one person stay two. */
  readonly lead_id: string | null;
  /**
   * open: no partner is credited; credited: `partner_id` is; reversed: was, and all of it has been
   * taken back.
   */
  readonly status: "open" | "credited" | "reversed";
  readonly partner_id: number | null;
  readonly campaign_id: number | null;
  /** The first copy: the event that made the sale. */
  readonly event_id: string;
  /** Time of the sale. */
  readonly at: UnixMs;
  readonly received_at: UnixMs;
  readonly value_minor: bigint;
  readonly currency: string;
  /** The amount came from a server, so no further copy changes it. */
  readonly has_server_money: boolean;
  /** A copy named the currency; false: not known without a look at the props of the first copy. */
  readonly has_currency: boolean;
  readonly refunded_minor: bigint;
  /** What was taken back before refunds were kept whole (format 1): it is never spread again. */
  readonly settled_minor: bigint;
  readonly refund_reason: string | null;
  /** All of the line has been given back; for a line worth nothing no amount could tell. */
  readonly is_returned: boolean;
  /** Partners whom its copies were credited to; null: remembered before lines kept them. */
  readonly claimed_by: readonly number[] | null;
  /** Why the commission is held. */
  readonly review: string | null;
  /**
   * Who is credited was decided: no copy and no later finding changes it, only another decision.
   */
  readonly is_decided: boolean;
  /** The newest conversion that this line opened, and the version of its newest record. */
  readonly conversion_id: string | null;
  readonly conversion_version: number;
  /** Receipt of the claim that credited it, whose contract holds; null: not remembered yet. */
  readonly known_at: UnixMs | null;
  /** How many second copies have come. */
  readonly copies: number;
  /** The events of the newest of them, which a refund may name, and of those that one names. */
  readonly copied: readonly string[];
  /**
   * The row of the first copy as it was last written, as text: few lines are ever touched again, so
   * few are ever read.
   */
  readonly row: string;
}

/** A refund as it was asked for; what it takes of each line follows from all lines and refunds. */
export interface Refund {
  readonly event_id: string;
  /** Null: of the whole order. */
  readonly product_key: string | null;
  /** The event that it names: the first copy of its line, or another one; null: it names none. */
  readonly line_event_id: string | null;
  /** Null: all of it. */
  readonly amount_minor: bigint | null;
  /** Null: that of the sale; the amount is then in digits of the default currency. */
  readonly currency: string | null;
  readonly reason: string;
  readonly received_at: UnixMs;
  /** The shop's own id, by which the copies of one refund meet. */
  readonly refund_id: string | null;
  /** Its row as it was last written, while its currency or its order is that of a sale. */
  readonly row: string | null;
}

/**
 * A decision that also concerns lines which come later: it came before its line, or is about the
 * whole order.
 */
export interface WaitingDecision {
  /** Null: of the whole order. */
  readonly product_key: string | null;
  /** The custom event whose line it is about. */
  readonly name: string | null;
  /** The event whose line it is about. */
  readonly event_id: string | null;
  readonly decision: Decision;
}

/** An event that is no claim and was decided about: its row as it was last written, as text. */
interface DecidedEvent {
  readonly event_id: string;
  readonly row: string;
}

export interface OrderState {
  readonly lines: readonly Line[];
  readonly refunds: readonly Refund[];
  readonly decisions: readonly WaitingDecision[];
  readonly events: readonly DecidedEvent[];
  /** Every partner whom a copy of a line was credited to. */
  readonly claimed_by: readonly number[];
  /** What is not here of an order that lies in parts; null: it lies in one value. */
  readonly parts: Parts | null;
}

/** A claim meets the lines that it may be about, and not the others of a large order. */
export interface Parts {
  /** How many lines are not here, by name. */
  readonly absent: ReadonlyMap<string | null, number>;
  /** How many refunds are not here. */
  readonly refunds: number;
  /** A refund names no product, so it may concern every line. */
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

/** With those that are not here. */
export const linesIn = ({ lines, parts }: OrderState): number =>
  [...(parts?.absent.values() ?? [])].reduce((sum, count) => sum + count, lines.length);

export const refundsIn = ({ refunds, parts }: OrderState): number => refunds.length + (parts?.refunds ?? 0);

/**
 * An order has one for each of its lines and so many more: refunds, decisions that wait for lines,
 * and other events that were decided about. All are remembered for good.
 */
export const MOST_BESIDE_LINES = 200;
const bounded: readonly ((order: OrderState) => number)[] = [
  refundsIn,
  ({ decisions }) => decisions.length,
  ({ events }) => events.length,
];
/** Whether a claim adds one that is too many. */
export const outgrows = (before: OrderState, after: OrderState): boolean =>
  bounded.some((count) => count(after) > count(before) && count(after) > MOST_BESIDE_LINES + linesIn(after));

/** An order's lines are complete this long after its first line was received. */
export const COMPLETE_AFTER_MS = 48 * 3_600_000;
export const firstReceiptOf = (lines: readonly Line[]): UnixMs =>
  lines.reduce((first, { received_at }) => Math.min(first, received_at), Number.POSITIVE_INFINITY);

/**
 * JSON has no bigint. Copies with the amounts as text cost a tenth of a replacer, which is called
 * for every field.
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
