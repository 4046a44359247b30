// What settle remembers of one order: its lines, who holds them, and the refunds and decisions that
// still wait for something to change.
import type { Decision, EventAttributed } from "../../schemas/generated.ts";
import { remembers, type UnixMs } from "../../stream/flow.ts";

/** Money without a currency is in this one (docs/design/contracts.md, "Answers"). */
export const DEFAULT_CURRENCY = "MXN";

/**
 * A line of an order: what one conversion key names. Fields that a record has too bear its names.
 */
export interface Line {
  /** product_id, or empty: for a line without a product, and for whatever is no order. */
  readonly product_key: string;
  /**
   * open: nobody is credited; credited: `partner_id` is; reversed: was, and all of it has been
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
  readonly refunded_minor: bigint;
  readonly refund_reason: string | null;
  /** All of the line has been given back; for a line worth nothing no amount could tell. */
  readonly is_returned: boolean;
  /** Why the commission is held. */
  readonly review: string | null;
  /**
   * Who is credited was decided: no copy and no later finding changes it, only another decision.
   */
  readonly is_decided: boolean;
  /** The newest conversion that this line opened, and the version of its newest record. */
  readonly conversion_id: string | null;
  readonly conversion_version: number;
  /** How many second copies have come. */
  readonly copies: number;
  /**
   * The row of the first copy as it was last written, as text: few lines are ever touched again, so
   * few are ever read.
   */
  readonly row: string;
}

/**
 * A refund with something left to take back: it came before its sale, is larger than what it found,
 * or is of all, whatever comes.
 */
export interface WaitingRefund {
  readonly event_id: string;
  /** Null: of the whole order. */
  readonly product_key: string | null;
  /** Null: all of it. */
  readonly left_minor: bigint | null;
  /** Null: that of the sale, which is not known before the sale. */
  readonly currency: string | null;
  readonly reason: string;
}

/**
 * A decision that also concerns lines which come later: it came before its line, or is about the
 * whole order.
 */
export interface WaitingDecision {
  /** Null: of the whole order. */
  readonly product_key: string | null;
  readonly decision: Decision;
}

/** An event that is no claim and was decided about: its row as it was last written, as text. */
export interface DecidedEvent {
  readonly event_id: string;
  readonly row: string;
}

export interface OrderState {
  readonly lines: readonly Line[];
  readonly refunds: readonly WaitingRefund[];
  readonly decisions: readonly WaitingDecision[];
  readonly events: readonly DecidedEvent[];
}

export const emptyOrder: OrderState = { lines: [], refunds: [], decisions: [], events: [] };

/**
 * The only form so far; an older one is recognised by its number, whatever fields come later.
 * Decisions came later: an order without one does not name them.
 */
const FORMAT = 1;

const decoder = new TextDecoder();

/**
 * JSON has no bigint. Copies with the amounts as text cost a tenth of a replacer, which is called
 * for every field.
 */
export const rowText = (row: EventAttributed): string =>
  row.event.value_minor === null
    ? JSON.stringify(row)
    : JSON.stringify({ ...row, event: { ...row.event, value_minor: row.event.value_minor.toString() } });

export const rowOf = (line: Pick<Line, "row">): EventAttributed => {
  const row = JSON.parse(line.row);
  if (row.event.value_minor !== null) row.event.value_minor = BigInt(row.event.value_minor);
  return row;
};

/**
 * First a line of JSON with everything but the rows, then each row on a line of its own: a text
 * inside JSON would be escaped again each time.
 */
const encode = ({ lines, refunds, decisions, events }: OrderState): Uint8Array => {
  const head = JSON.stringify({
    format: FORMAT,
    lines: lines.map((line) => ({
      ...line,
      value_minor: line.value_minor.toString(),
      refunded_minor: line.refunded_minor.toString(),
      row: undefined,
      is_decided: line.is_decided || undefined,
    })),
    refunds: refunds.map((refund) => ({ ...refund, left_minor: refund.left_minor?.toString() ?? null })),
    decisions: decisions.length === 0 ? undefined : decisions,
    events: events.length === 0 ? undefined : events.map(({ event_id }) => event_id),
  });
  return Buffer.from([head, ...lines.map((line) => line.row), ...events.map(({ row }) => row)].join("\n"));
};

const decode = (bytes: Uint8Array): OrderState => {
  const [head, ...rows] = decoder.decode(bytes).split("\n");
  const { format, lines, refunds, decisions = [], events = [] } = JSON.parse(head!);
  if (format !== FORMAT) throw new Error(`an order was remembered in format ${format}, and only ${FORMAT} is known`);
  for (const [n, line] of lines.entries()) {
    line.value_minor = BigInt(line.value_minor);
    line.refunded_minor = BigInt(line.refunded_minor);
    line.row = rows[n];
    line.is_decided ??= false;
  }
  for (const refund of refunds) if (refund.left_minor !== null) refund.left_minor = BigInt(refund.left_minor);
  return {
    lines,
    refunds,
    decisions,
    events: events.map((event_id: string, n: number) => ({ event_id, row: rows[lines.length + n] })),
  };
};

/** One order a key; durable, for it decides money. */
export const order = remembers<OrderState>({
  name: "order",
  keyedBy: "client_id:order",
  driver: "durable",
  initial: emptyOrder,
  encode,
  decode,
});
