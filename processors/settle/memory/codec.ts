// Encodes an order, or a part of one, and decodes all formats ever written.
import type { Line, OrderState, Refund } from "../order.ts";

/**
 * Format 1 stored only the open remainder of each refund. Format 3 marks orders that are stored in
 * parts, so that code that only knows format 2 does not read a part as a whole order. Newer fields
 * are omitted when empty.
 */
const FORMATS = { first: 1, together: 2, parted: 3 } as const;

const decoder = new TextDecoder();

/**
 * The first line is JSON with everything except the rows; then each row follows on its own line.
 * Rows inside the JSON would have to be escaped again each time.
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

/**
 * Fills in the parsed object in place, because copying each line would add a fifth to the decoding
 * time.
 */
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
 * Format 1 did not store when a refund was received. 0 counts as received before its order's lines
 * were complete.
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
