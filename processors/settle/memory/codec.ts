// The bytes of an order, and of a part of one, as they are written and as they once were.
import type { Line, OrderState, Refund } from "../order.ts";

/**
 * Format 1 kept of a refund only what it had not taken yet. Format 3 is of orders that lie in
 * parts, which code that knows 2 must not take for whole ones. Fields that came later are left out
 * where they say nothing.
 */
const FORMATS = { first: 1, together: 2, parted: 3 } as const;

const decoder = new TextDecoder();

/**
 * First a line of JSON with everything but the rows, then each row on a line of its own: a text
 * inside JSON would be escaped again each time.
 */
export const encode = ({ lines, refunds, decisions, events, claimed_by, parts }: OrderState): Uint8Array => {
  const isParted = parts !== null || lines.some(({ number }, n) => number !== n);
  const head = JSON.stringify({
    format: isParted ? FORMATS.parted : FORMATS.together,
    parts: parts === null ? undefined : { ...parts, absent: [...parts.absent] },
    lines: lines.map((line, n) => ({
      ...line,
      number: line.number === n ? undefined : line.number,
      name: line.name ?? undefined,
      lead_id: line.lead_id ?? undefined,
      value_minor: line.value_minor.toString(),
      has_currency: line.has_currency || undefined,
      refunded_minor: line.refunded_minor.toString(),
      settled_minor: line.settled_minor === 0n ? undefined : line.settled_minor.toString(),
      known_at: line.known_at ?? undefined,
      claimed_by: line.claimed_by ?? undefined,
      copied: line.copied.length === 0 ? undefined : line.copied,
      row: undefined,
      is_decided: line.is_decided || undefined,
    })),
    refunds: refunds.map((refund) => ({
      ...refund,
      amount_minor: refund.amount_minor?.toString() ?? null,
      row: refund.row !== null,
    })),
    decisions: decisions.length === 0 ? undefined : decisions,
    events: events.length === 0 ? undefined : events.map(({ event_id }) => event_id),
    claimed_by: claimed_by.length === 0 ? undefined : claimed_by,
  });
  const rows = [...lines, ...events, ...refunds].flatMap(({ row }) => row ?? []);
  return Buffer.from([head, ...rows].join("\n"));
};

const noCopies: readonly string[] = [];

/** Filled in where it was parsed: a copy of each line would cost a fifth of reading it. */
const lineFrom = (line: any, row: string, n: number, format: number): Line => {
  line.number ??= n;
  line.name ??= null;
  line.lead_id ??= null;
  line.value_minor = BigInt(line.value_minor);
  line.has_currency ??= false;
  line.refunded_minor = BigInt(line.refunded_minor);
  line.settled_minor = format === FORMATS.first ? line.refunded_minor : BigInt(line.settled_minor ?? 0);
  line.known_at ??= null;
  line.claimed_by ??= null;
  line.copied ??= noCopies;
  line.is_decided ??= false;
  line.row = row;
  return line;
};

/**
 * When it was received, format 1 did not say: in time, as far as its order's lines are concerned.
 */
const refundFrom = ({ left_minor, amount_minor = left_minor, row, ...refund }: any, rows: string[]): Refund => ({
  line_event_id: null,
  received_at: 0,
  refund_id: null,
  ...refund,
  amount_minor: amount_minor === null ? null : BigInt(amount_minor),
  row: row === true ? rows.shift()! : null,
});

export const decode = (bytes: Uint8Array): OrderState => {
  const [head, ...rows] = decoder.decode(bytes).split("\n");
  const { format, parts, lines, refunds, decisions = [], events = [], claimed_by } = JSON.parse(head!);
  if (!Object.values<number>(FORMATS).includes(format))
    throw new Error(`an order was remembered in format ${format}, and only 1 to ${FORMATS.parted} are known`);
  const known: readonly Line[] = lines.map((line: unknown, n: number) => lineFrom(line, rows.shift()!, n, format));
  return {
    lines: known,
    events: events.map((event_id: string) => ({ event_id, row: rows.shift()! })),
    refunds: refunds.map((refund: unknown) => refundFrom(refund, rows)),
    decisions: decisions.map((asked: object) => ({ name: null, event_id: null, ...asked })),
    claimed_by:
      claimed_by ?? (format === FORMATS.first ? [...new Set(known.flatMap(({ partner_id }) => partner_id ?? []))] : []),
    parts: parts === undefined ? null : { refunds: 0, ...parts, absent: new Map(parts.absent) },
  };
};
