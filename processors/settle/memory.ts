// How orders are stored in memory: a small order in one value under its key, a large one in parts
// by product, so that a claim reads and writes only the parts that it needs. The format of a value
// stands first, with the decoder of all formats ever written.

import type { Claim } from "../../schemas/generated.ts";
import type { MemoryOf, Recorded } from "../../stream/flow.ts";
import { partitionOf } from "../../stream/partitioner.ts";
import { isLead, productKeyOf } from "./match-line.ts";
import { emptyOrder, type Line, type OrderState, type Parts, type Refund, refundsIn } from "./order.ts";

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
const encode = ({ lines, refunds, decisions, events, claimed_by, parts }: OrderState): Uint8Array => {
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
      earns_nothing: line.earns_nothing || undefined,
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
  line.earns_nothing ??= false;
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

const decode = (bytes: Uint8Array): OrderState => {
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

/** An order with more lines is stored in parts. Nearly every order has fewer. */
export const MOST_TOGETHER = 16;
/** With the limit of 2,000 lines, each part holds about eight. */
const PARTS = 256;

/**
 * Record keys start with the digits of the client, so no order id can produce the key of another
 * order's part.
 */
const partKey = (key: string, part: number): string => `part/${part}|${key}`;
const partOf = (text: string): number => partitionOf(Buffer.from(text), PARTS);
const ALL = Array.from({ length: PARTS }, (_, part) => part);

type Order = OrderState | undefined;

/** True if the refund can only affect lines of one product. */
const isOfProduct = ({ product_key, line_event_id }: Refund): boolean => product_key !== null && line_event_id === null;

/**
 * True if the claim may affect lines of any product. A refund of the whole order is spread again
 * whenever a line changes, until the lines are complete. A reprocess may change who claims the
 * order.
 */
const meetsAll = ({ data }: Recorded<Claim>, { has_refunds_of_all }: Parts): boolean => {
  const { decision, kind, line_event_id, attributed } = data;
  if (isLead(data) || has_refunds_of_all) return true;
  if (decision !== null)
    return (
      decision.scope === "order" ||
      (decision.scope === "line" && (decision.kind === "reprocess" || productKeyOf(data) === ""))
    );
  return kind === "refund" ? attributed.event.product_id === null || line_event_id !== null : productKeyOf(data) === "";
};

/**
 * The parts that a claim needs: those of its product, and of the total that it may be a copy of. An
 * order that is about to be split needs all parts.
 */
const partsMet = (claim: Recorded<Claim>, head: OrderState, mostTogether: number): readonly number[] => {
  if (head.parts === null) return head.lines.length < mostTogether ? [] : ALL;
  if (meetsAll(claim, head.parts)) return ALL;
  return [...new Set([claim.data.attributed.event.product_id ?? "", ""].map(partOf))];
};

/** All keys that may hold data of the order. The first is its head. */
export const keysOfOrder = (key: string): readonly string[] => [key, ...ALL.map((part) => partKey(key, part))];
/** True if the encoded head says that the order is stored in parts. */
export const isInParts = (head: Uint8Array): boolean => decode(head).parts !== null;

const countByName = (lines: readonly Line[], counts: ReadonlyMap<string | null, number>, sign: 1 | -1) => {
  const summed = new Map(counts);
  for (const { name } of lines) summed.set(name, (summed.get(name) ?? 0) + sign);
  return summed;
};

const assembled = (head: OrderState, parts: readonly Order[]): OrderState => {
  if (head.parts === null) return head;
  const lines = parts.flatMap((part) => part?.lines ?? []).sort((a, b) => a.number - b.number);
  const refunds = parts.flatMap((part) => part?.refunds ?? []);
  const absent = countByName(lines, head.parts.absent, -1);
  return { ...head, lines, refunds, parts: { ...head.parts, absent, refunds: head.parts.refunds - refunds.length } };
};

/** The head holds everything that is in no part. */
const headOf = (order: OrderState): OrderState => ({
  ...order,
  lines: [],
  refunds: [],
  parts: {
    absent: countByName(order.lines, order.parts?.absent ?? new Map(), 1),
    refunds: refundsIn(order),
    has_refunds_of_all: order.refunds.some((refund) => !isOfProduct(refund)),
  },
});
const isSameHead = (before: OrderState, after: OrderState): boolean =>
  before.lines.length === after.lines.length &&
  before.decisions === after.decisions &&
  before.events === after.events &&
  before.claimed_by === after.claimed_by &&
  before.refunds.length === after.refunds.length &&
  before.refunds.every(isOfProduct) === after.refunds.every(isOfProduct);

type Part = Pick<OrderState, "lines" | "refunds">;

/**
 * Leads have no product, and a refund may have none. They are placed by their event id, so that one
 * more does not rewrite the others.
 */
const partsIn = ({ lines, refunds }: OrderState, areLeads: boolean): ReadonlyMap<number, Part> => {
  const parts = new Map<number, { lines: Line[]; refunds: Refund[] }>();
  const at = (text: string) => {
    const part = partOf(text);
    const known = parts.get(part) ?? { lines: [], refunds: [] };
    parts.set(part, known);
    return known;
  };
  for (const line of lines) at(areLeads ? line.event_id : line.product_key).lines.push(line);
  for (const refund of refunds) at(isOfProduct(refund) ? refund.product_key! : refund.event_id).refunds.push(refund);
  return parts;
};

const same = <T>(a: readonly T[], b: readonly T[]): boolean =>
  a.length === b.length && a.every((one, n) => one === b[n]);
const nothing: Part = { lines: [], refunds: [] };

const changesOf = (keys: readonly string[], before: OrderState, after: OrderState) => {
  const [key, ...met] = keys;
  const areLeads = /^\d+:l:/.test(key!);
  const wasTogether = before.parts === null;
  const changes: { key: string; value: OrderState }[] = [];
  if (wasTogether || !isSameHead(before, after)) changes.push({ key: key!, value: headOf(after) });
  const parts = partsIn(after, areLeads);
  const old = wasTogether ? new Map<number, Part>() : partsIn(before, areLeads);
  for (const part of new Set([...old.keys(), ...parts.keys()])) {
    const [a, b] = [old.get(part) ?? nothing, parts.get(part) ?? nothing];
    if (same(a.lines, b.lines) && same(a.refunds, b.refunds)) continue;
    const name = partKey(key!, part);
    if (!met.includes(name)) throw new Error(`settle changed ${name} and had not met it`);
    changes.push({ key: name, value: { ...emptyOrder, ...b } });
  }
  return changes;
};

/** Durable, because it decides about money. Tests use a smaller limit than MOST_TOGETHER. */
export const orderMemory = (mostTogether: number): MemoryOf<OrderState> => ({
  name: "order",
  keyedBy: "client_id:order",
  driver: "durable",
  keysOf: ({ key }) => [key],
  furtherKeysOf: (claim, [head = emptyOrder]) =>
    partsMet(claim, head, mostTogether).map((part) => partKey(claim.key, part)),
  decode,
  encode,
  stateOf: (_, [head, ...parts]) => (head === undefined ? emptyOrder : assembled(head, parts)),
  changes: (keys, before, after) => {
    if (before === after) return [];
    if (after.parts === null && after.lines.length <= mostTogether) return [{ key: keys[0]!, value: after }];
    return changesOf(keys, before, after);
  },
});

export const order = orderMemory(MOST_TOGETHER);

/** Assembles the whole order from the bytes of its keys. Undefined if nothing is remembered. */
export const orderFrom = (key: string, found: (key: string) => Uint8Array | undefined): OrderState | undefined => {
  const head = found(key);
  if (head === undefined) return undefined;
  const values = keysOfOrder(key).map((one) => {
    const bytes = found(one);
    return bytes === undefined ? undefined : decode(bytes);
  });
  return { ...order.stateOf([key], values), parts: null };
};
