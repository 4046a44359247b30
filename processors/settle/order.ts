// processors/settle/order.ts - what settle remembers of one order: its lines, who holds them, and the refunds that still wait for something to take back.
import type { EventAttributed } from "../../schemas/generated.ts";
import { remembers, type UnixMs } from "../../stream/flow.ts";

/** Money without a currency is in this one (contracts.md 1). */
export const DEFAULT_CURRENCY = "MXN";

/** A line of an order: what one conversion key names. Fields that a record has too bear its names. */
export interface Line {
  /** product_id, or empty: for a line without a product, and for whatever is no order. */
  readonly product_key: string;
  /** open: nobody is credited; credited: `partner_id` is; reversed: was, and all of it has been taken back. */
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
  /** The newest conversion that this line opened, and the version of its newest record. */
  readonly conversion_id: string | null;
  readonly conversion_version: number;
  /** How many second copies have come. */
  readonly copies: number;
  /** The row of the first copy as it was last written, as text: few lines are ever touched again, so few are ever read. */
  readonly row: string;
}

/** A refund with something left to take back: it came before its sale, is larger than what it found, or is of all, whatever comes. */
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

export interface OrderState {
  readonly lines: readonly Line[];
  readonly refunds: readonly WaitingRefund[];
}

export const emptyOrder: OrderState = { lines: [], refunds: [] };

/** The only form so far; an older one is recognised by its number, whatever fields come later. */
const FORMAT = 1;

const decoder = new TextDecoder();

/** JSON has no bigint. Copies with the amounts as text cost a tenth of a replacer, which is called for every field. */
export const rowText = (row: EventAttributed): string =>
  row.event.value_minor === null
    ? JSON.stringify(row)
    : JSON.stringify({ ...row, event: { ...row.event, value_minor: row.event.value_minor.toString() } });

export const rowOf = (line: Line): EventAttributed => {
  const row = JSON.parse(line.row);
  if (row.event.value_minor !== null) row.event.value_minor = BigInt(row.event.value_minor);
  return row;
};

/** First a line of JSON with everything but the rows, then each row on a line of its own: a text inside JSON would be escaped again each time. */
const encode = ({ lines, refunds }: OrderState): Uint8Array => {
  const head = JSON.stringify({
    format: FORMAT,
    lines: lines.map((line) => ({
      ...line,
      value_minor: line.value_minor.toString(),
      refunded_minor: line.refunded_minor.toString(),
      row: undefined,
    })),
    refunds: refunds.map((refund) => ({ ...refund, left_minor: refund.left_minor?.toString() ?? null })),
  });
  return Buffer.from([head, ...lines.map((line) => line.row)].join("\n"));
};

const decode = (bytes: Uint8Array): OrderState => {
  const [head, ...rows] = decoder.decode(bytes).split("\n");
  const { format, lines, refunds } = JSON.parse(head!);
  if (format !== FORMAT) throw new Error(`an order was remembered in format ${format}, and only ${FORMAT} is known`);
  for (const [n, line] of lines.entries()) {
    line.value_minor = BigInt(line.value_minor);
    line.refunded_minor = BigInt(line.refunded_minor);
    line.row = rows[n];
  }
  for (const refund of refunds) if (refund.left_minor !== null) refund.left_minor = BigInt(refund.left_minor);
  return { lines, refunds };
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
