// How orders are stored in memory: a small order in one value under its key, a large one in parts
// by product, so that a claim reads and writes only the parts that it needs. The format of a value
// stands first, with the decoder of all formats ever written.

import { meetingId, UNNAMED_PRODUCT } from "../../domain/ids.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { MemoryOf, Recorded } from "../../stream/flow.ts";
import { partitionOf } from "../../stream/partitioner.ts";
import { MERGE_WINDOW_MS } from "./copies/merge-copy.ts";
import { isLead, nameOf, productKeyOf } from "./match-line.ts";
import {
  type AwaitedTotal,
  countClaims,
  emptyOrder,
  type Holder,
  isClaimedAlike,
  isTotal,
  knownAtOf,
  type Line,
  MOST_LINES_REPLAYED,
  noClaims,
  type OrderState,
  type Parts,
  productOf,
  type Refund,
  refundsIn,
} from "./order.ts";
import { isStandingTotal } from "./spread.ts";
import { totalWithLinesIn } from "./totals/total.ts";
import { TOLERANCE_MINOR } from "./totals/worth.ts";

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
export const encode = (order: OrderState): Uint8Array => {
  const { lines, refunds, decisions, events, claimed_by, parts, words, withdrawn } = order;
  const isParted = parts !== null || lines.some(({ number }, n) => number !== n);
  const head = JSON.stringify({
    format: isParted ? FORMATS.parted : FORMATS.together,
    parts: parts === null ? undefined : plainParts(parts),
    lines: lines.map(plainLine),
    refunds: refunds.map((refund) => ({
      ...refund,
      amount_minor: refund.amount_minor?.toString() ?? null,
      source: refund.source ?? undefined,
      twin_of: refund.twin_of ?? undefined,
      is_twin: refund.is_twin || undefined,
      was_twin: refund.was_twin ?? undefined,
      row: refund.row !== null,
    })),
    decisions:
      decisions.length === 0
        ? undefined
        : decisions.map((asked) => ({ ...asked, is_taken: asked.is_taken || undefined })),
    events: events.length === 0 ? undefined : events.map(({ event_id }) => event_id),
    claimed_by: claimed_by.length === 0 ? undefined : claimed_by,
    withdrawn: withdrawn.length === 0 ? undefined : withdrawn,
    words: words === null ? undefined : { base: words.base ?? undefined, written: words.written },
  });
  const rows = [...lines, ...events, ...refunds].flatMap(({ row }) => row ?? []);
  // What is left are the claims of `words`.
  return Buffer.from([head, ...rows, ...(words?.claims ?? [])].join("\n"));
};

/** Field by field: nearly every sale passes here, and a spread costs a fifth more. */
const plainLine = (line: Line, n: number): Readonly<Record<Exclude<keyof Line, "row">, unknown>> => ({
  number: line.number === n ? undefined : line.number,
  product_key: line.product_key,
  name: line.name ?? undefined,
  lead_id: line.lead_id ?? undefined,
  status: line.status,
  partner_id: line.partner_id,
  campaign_id: line.campaign_id,
  event_id: line.event_id,
  at: line.at,
  received_at: line.received_at,
  value_minor: line.value_minor.toString(),
  currency: line.currency,
  dated: plainDated(line),
  has_server_money: line.has_server_money,
  has_currency: line.has_currency || undefined,
  money_from: line.money_from ?? undefined,
  amended_by: line.amended_by ?? undefined,
  segment_word: line.segment_word ?? undefined,
  refunded_minor: line.refunded_minor.toString(),
  settled_minor: line.settled_minor === 0n ? undefined : line.settled_minor.toString(),
  refund_reason: line.refund_reason,
  is_returned: line.is_returned,
  claimed_by: line.claimed_by ?? undefined,
  review: line.review,
  held_for: line.held_for ?? undefined,
  stands: line.stands || undefined,
  total_from: line.total_from ?? undefined,
  is_decided: line.is_decided || undefined,
  holders: line.holders.length === 0 ? undefined : line.holders,
  earns_nothing: line.earns_nothing || undefined,
  conversion_id: line.conversion_id,
  conversion_version: line.conversion_version,
  known_at: line.known_at ?? undefined,
  copies: line.copies,
  copied: line.copied.length === 0 ? undefined : line.copied,
});

const plainParts = (parts: Parts): object => ({
  ...parts,
  absent: [...parts.absent],
  claims: parts.claims === null ? undefined : [...parts.claims],
  totals: totalsAsText(parts),
});

const totalsAsText = ({ totals }: Parts) =>
  totals.length === 0
    ? undefined
    : totals.map((one) => ({
        ...one,
        value_minor: one.value_minor.toString(),
        lines_minor: one.lines_minor.toString(),
      }));
const totalFrom = ({ value_minor, lines_minor, ...total }: any): AwaitedTotal => ({
  ...total,
  value_minor: BigInt(value_minor),
  lines_minor: BigInt(lines_minor),
});

/** Most sales are dated by their own event, which is written as 1. */
const plainDated = ({ dated, at }: Line): readonly unknown[] | 1 | undefined => {
  if (dated === null) return undefined;
  const { by, because, event_at } = dated;
  return by === "event" && because === null && event_at === at ? 1 : [by, because, event_at];
};
const datedFrom = ({ dated, at }: any): Line["dated"] => {
  if (dated === undefined) return null;
  const [by, because, event_at] = dated === 1 ? ["event", null, at] : dated;
  return { by, because, event_at };
};

const noCopies: readonly string[] = [];
const noHolders: readonly Holder[] = [];

/**
 * Fills in the parsed object in place, because copying each line would add a fifth to the decoding
 * time.
 */
const lineFrom = (line: any, row: string, n: number, format: number): Line => {
  line.number ??= n;
  line.name ??= null;
  line.lead_id = meetingId(line.lead_id);
  line.dated = datedFrom(line);
  line.value_minor = BigInt(line.value_minor);
  line.has_currency ??= false;
  line.money_from ??= null;
  line.amended_by ??= null;
  line.segment_word ??= null;
  line.refunded_minor = BigInt(line.refunded_minor);
  line.settled_minor = format === FORMATS.first ? line.refunded_minor : BigInt(line.settled_minor ?? 0);
  line.known_at = knownAtOf(line.received_at, line.known_at ?? null);
  line.claimed_by ??= null;
  line.copied ??= noCopies;
  line.is_decided ??= false;
  line.holders ??= noHolders;
  line.earns_nothing ??= false;
  line.held_for ??= null;
  line.stands ??= false;
  line.total_from ??= null;
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
  source: null,
  twin_of: null,
  is_twin: false,
  was_twin: null,
  ...refund,
  // Stored before ids had one spelling.
  refund_id: meetingId(refund.refund_id),
  amount_minor: amount_minor === null ? null : BigInt(amount_minor),
  row: row === true ? rows.shift()! : null,
});

const partsFrom = ({ absent, claims, totals = [], ...parts }: any): Parts => ({
  refunds: 0,
  spelled_otherwise: null,
  ...parts,
  absent: new Map(absent),
  claims: claims === undefined ? null : new Map(claims),
  totals: totals.map(totalFrom),
});

export const decode = (bytes: Uint8Array): OrderState => {
  const [head, ...rows] = decoder.decode(bytes).split("\n");
  const { format, parts, lines, refunds, decisions = [], events = [], claimed_by, ...rest } = JSON.parse(head!);
  if (!Object.values<number>(FORMATS).includes(format))
    throw new Error(`an order was remembered in format ${format}, and only 1 to ${FORMATS.parted} are known`);
  const known: readonly Line[] = lines.map((line: unknown, n: number) => lineFrom(line, rows.shift()!, n, format));
  return {
    lines: known,
    events: events.map((event_id: string) => ({ event_id, row: rows.shift()! })),
    refunds: refunds.map((refund: unknown) => refundFrom(refund, rows)),
    decisions: decisions.map((asked: object) => ({ name: null, event_id: null, is_taken: false, ...asked })),
    claimed_by:
      claimed_by ?? (format === FORMATS.first ? [...new Set(known.flatMap(({ partner_id }) => partner_id ?? []))] : []),
    parts: parts === undefined ? null : partsFrom(parts),
    withdrawn: rest.withdrawn ?? [],
    words: rest.words === undefined ? null : { base: null, ...rest.words, claims: rows },
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
const meetsAll = ({ data }: Recorded<Claim>, { has_refunds_of_all, spelled_otherwise }: Parts): boolean => {
  const { decision, kind, line_event_id } = data;
  if (isLead(data) || has_refunds_of_all || spelled_otherwise === null) return true;
  if (decision !== null)
    return (
      decision.scope === "order" ||
      decision.withdraws === true ||
      (decision.scope === "line" &&
        (decision.kind === "reprocess" || decision.keep !== null || productOf(productKeyOf(data)) === ""))
    );
  return productOf(productKeyOf(data)) === "" || (kind === "refund" && line_event_id !== null);
};

/**
 * True if the claim may bring the lines to the worth of a total that they are merged with. Its line
 * may be known, with any worth up to that of all lines.
 */
const mayMeetTotal = ({ data, receivedAt }: Recorded<Claim>, { totals, absent }: Parts): boolean => {
  if (data.decision !== null || data.kind === "refund" || totals.length === 0) return false;
  const { value_minor, currency } = data.attributed.event;
  const name = nameOf(data);
  return totals.some((total) => {
    if (total.name !== name || Math.abs(receivedAt - total.received_at) > MERGE_WINDOW_MS) return false;
    if (total.is_mixed || currency !== total.currency) return true;
    const tolerance = TOLERANCE_MINOR * BigInt(1 + (absent.get(name) ?? 0));
    return total.lines_minor + (value_minor ?? 0n) + tolerance >= total.value_minor;
  });
};

/** True for the first row of a file in the order: a small order is remembered as it was before. */
const beginsWords = ({ data }: Recorded<Claim>, { words, parts }: OrderState): boolean =>
  words === null &&
  data.decision === null &&
  data.attributed.event.import_id !== null &&
  [...parts!.absent.values()].reduce((sum, count) => sum + count, 0) <= MOST_LINES_REPLAYED;

/**
 * The parts that a claim needs: those of its product, and of the total that it may be a copy of. An
 * order that is about to be split needs all parts.
 */
const partsMet = (claim: Recorded<Claim>, head: OrderState, mostTogether: number): readonly number[] => {
  if (head.parts === null) return head.lines.length < mostTogether ? [] : ALL;
  // What a file says of an order with a single line follows from that line.
  const isAlone = [...head.parts.absent.values()].reduce((sum, count) => sum + count, 0) <= 1;
  const isAsked = meetsAll(claim, head.parts) || mayMeetTotal(claim, head.parts) || beginsWords(claim, head);
  if (isAlone || isAsked) return ALL;
  const products = [productKeyOf(claim.data), "", UNNAMED_PRODUCT];
  return [...new Set([...products.map(partOf), ...(head.parts.spelled_otherwise ?? ALL)])];
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
  // What is whole is counted again, also after a head that was stored without these counts.
  const isWhole = [...absent.values()].every((count) => count === 0);
  const claims = isWhole ? noClaims : countClaims(lines, head.parts.claims, -1);
  const totals = head.parts.totals.map((total) => withLines(total, lines, -1n));
  const left = { ...head.parts, absent, claims, totals, refunds: head.parts.refunds - refunds.length };
  return { ...head, lines, refunds, parts: left };
};

/** Lines and refunds lie in the part of the product id as it was stored. */
const partsSpelledOtherwise = ({ lines, refunds }: OrderState): readonly number[] => {
  const products = [...lines, ...refunds.filter(isOfProduct)].map(({ product_key }) => product_key ?? "");
  return [...new Set(products.filter((product) => productOf(product) !== product).map(partOf))];
};

/** A total with the worth of more lines, or of fewer. */
const withLines = (total: AwaitedTotal, lines: readonly Line[], sign: 1n | -1n): AwaitedTotal => {
  const own = lines.filter(({ name, product_key }) => name === total.name && !isTotal({ product_key }));
  const added = own.reduce((sum, { value_minor }) => sum + sign * value_minor, 0n);
  const is_mixed = total.is_mixed || own.some(({ currency }) => currency !== total.currency);
  return { ...total, lines_minor: total.lines_minor + added, is_mixed };
};

/** The totals beside lines. The total itself is loaded with every claim. */
const totalsOf = ({ lines, parts }: OrderState): readonly AwaitedTotal[] =>
  lines
    .filter((line) => isTotal(line) && !line.stands)
    .filter(({ name }) => (parts?.absent.get(name) ?? 0) > 0 || totalWithLinesIn(lines, name) !== null)
    .map(({ name, value_minor, currency, received_at }) => {
      const known = parts?.totals.find((one) => one.name === name);
      const [lines_minor, is_mixed] = [known?.lines_minor ?? 0n, known?.is_mixed ?? false];
      return withLines({ name, value_minor, currency, received_at, lines_minor, is_mixed }, lines, 1n);
    });
const isSameTotal = (a: AwaitedTotal, b: AwaitedTotal | undefined): boolean =>
  a.value_minor === b?.value_minor &&
  a.currency === b.currency &&
  a.lines_minor === b.lines_minor &&
  a.is_mixed === b.is_mixed;

/** The head holds everything that is in no part. */
const headOf = (order: OrderState): OrderState => ({
  ...order,
  lines: [],
  refunds: [],
  parts: {
    absent: countByName(order.lines, order.parts?.absent ?? new Map(), 1),
    refunds: refundsIn(order),
    claims: countClaims(order.lines, order.parts === null ? noClaims : order.parts.claims, 1),
    has_refunds_of_all: order.refunds.some((refund) => !isOfProduct(refund)) || order.lines.some(isStandingTotal),
    spelled_otherwise: order.parts?.spelled_otherwise ?? partsSpelledOtherwise(order),
    totals: totalsOf(order),
  },
});
const isSameHead = (before: OrderState, after: OrderState): boolean =>
  (before.parts === null || before.parts.spelled_otherwise !== null) &&
  before.words === after.words &&
  before.withdrawn === after.withdrawn &&
  before.lines.length === after.lines.length &&
  isClaimedAlike(before.lines, after.lines) &&
  before.decisions === after.decisions &&
  before.events === after.events &&
  before.claimed_by === after.claimed_by &&
  before.refunds.length === after.refunds.length &&
  before.refunds.every(isOfProduct) === after.refunds.every(isOfProduct) &&
  isSameList(totalsOf(before), totalsOf(after));
const isSameList = (a: readonly AwaitedTotal[], b: readonly AwaitedTotal[]): boolean =>
  a.length === b.length && a.every((total, n) => isSameTotal(total, b[n]));

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
