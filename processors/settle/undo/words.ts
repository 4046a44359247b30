// What settle remembers of an order so that a row of an undone file can be withdrawn: the claims
// since the first such row, and the order before it. Orders that no file touches have none of it.
import { uuidOf } from "../../../domain/ids.ts";
import type { Claim, EventAttributed } from "../../../schemas/generated.ts";
import type { Emit, Recorded, Reject, UnixMs } from "../../../stream/flow.ts";
import { decode, encode } from "../memory.ts";
import {
  emptyOrder,
  type Line,
  linesIn,
  MOST_LINES_REPLAYED,
  type OrderState,
  rowFrom,
  rowOf,
  rowText,
  type Words,
  type WrittenRow,
} from "../order.ts";

type Outcome = Emit<any, OrderState>;
/** Applies a claim to an order, as settle does. */
export type Settles = (claim: Recorded<Claim>, order: OrderState) => Outcome | Reject<"order_too_large">;

/** Older claims can no longer be withdrawn one by one: they become part of `base`. */
const MOST_CLAIMS = 20;
/** The props of an event may be large, and each claim is written again with every other one. */
const MOST_LETTERS = 100_000;

/** True for what a row of a file says. */
const isOfFile = ({ data }: Recorded<Claim>): boolean =>
  data.decision === null && data.attributed.event.import_id !== null;

export const textOf = ({ id, at, receivedAt, data }: Recorded<Claim>): string => {
  const { attributed, ...claim } = data;
  return `${JSON.stringify({ id, at, receivedAt, claim }).slice(0, -1)},"attributed":${rowText(attributed)}}`;
};
const claimFrom = (text: string, { key, position }: Recorded<Claim>): Recorded<Claim> => {
  const { id, at, receivedAt, claim, attributed } = JSON.parse(text);
  return { id, key, at, receivedAt, position, data: { ...claim, attributed: rowFrom(attributed) } };
};

/** The same content has the same text, whatever its version. */
export const contentOf = (row: EventAttributed): string => uuidOf("row", rowText({ ...row, version: 0 }));
export const writtenAs = (row: EventAttributed): WrittenRow => ({
  ...{ event_id: row.event.event_id, version: row.version, content: contentOf(row) },
});

/** Rows by their event, of which the last one counts. */
export type RowsByEvent = ReadonlyMap<string, { readonly row: EventAttributed; readonly at: UnixMs }>;
const rowsIn = ({ events }: Outcome): RowsByEvent =>
  new Map(
    events
      .filter(({ output }) => output === "attributed")
      .map(({ data, at }) => [(data as EventAttributed).event.event_id, { row: data as EventAttributed, at: at! }]),
  );

const withRows = (written: readonly WrittenRow[], rows: RowsByEvent): readonly WrittenRow[] => [
  ...written.filter(({ event_id }) => !rows.has(event_id)),
  ...[...rows.values()].map(({ row }) => writtenAs(row)),
];

const isNothing = (order: OrderState): boolean =>
  linesIn(order) + order.refunds.length + order.decisions.length + order.events.length === 0 &&
  (order.parts?.refunds ?? 0) === 0;

/** True if all of the order was loaded. */
const isWhole = ({ parts }: OrderState): boolean =>
  parts === null || ([...parts.absent.values()].every((count) => count === 0) && parts.refunds === 0);

/** A row of JSON inside the row, e.g. its props, has its quotes escaped. */
const MARK = '"import_id":"';
/** True for a line that no claim but its first has touched, which a row of a file made. */
const isMadeByFileAlone = (line: Line): boolean =>
  line.row.includes(MARK) && line.copies === 0 && line.conversion_version <= 1 && !line.is_decided;

/** The claim that made a line which nothing has touched since. */
const claimOf = (line: Line, { key, position, data }: Recorded<Claim>): Recorded<Claim> => {
  const { event_id: id, at, received_at: receivedAt, dated } = line;
  return {
    ...{ id, key, at, receivedAt, position },
    data: {
      ...{ client_id: data.client_id, order_key: data.order_key, decision: null, moved: null },
      kind: "conversion",
      ...{ line_event_id: null, currency: line.currency },
      ...{ dated_by: dated?.by ?? null, dated_because: dated?.because ?? null },
      attributed: { ...rowOf(line), refunded_minor: null },
    },
  };
};

/** The words of an order; those of one that a row of a file has made alone follow from its line. */
export const wordsOf = (order: OrderState, claim: Recorded<Claim>): Words | null => {
  if (order.words !== null) return order.words;
  const [line, another] = order.lines;
  if (line === undefined || another !== undefined || !isWhole(order)) return null;
  if (order.refunds.length + order.decisions.length + order.events.length > 0) return null;
  if (!isMadeByFileAlone(line)) return null;
  const row = rowOf(line);
  if (row.event.import_id === null || row.version !== 1) return null;
  return { base: null, claims: [textOf(claimOf(line, claim))], written: [writtenAs(row)] };
};

export const baseOf = ({ base }: Words): OrderState => (base === null ? emptyOrder : decode(Buffer.from(base)));
export const claimsOf = ({ claims }: Words, cause: Recorded<Claim>): readonly Recorded<Claim>[] =>
  claims.map((text) => claimFrom(text, cause));

const encoded = (order: OrderState): string | null =>
  isNothing(order) ? null : Buffer.from(encode({ ...order, parts: null, words: null })).toString();

/** A reprocess was computed for a version of its row. It is for the version that is there now. */
const ofThisVersion = (claim: Recorded<Claim>, { lines }: OrderState): Recorded<Claim> => {
  const { decision, attributed } = claim.data;
  if (decision?.kind !== "reprocess") return claim;
  const line = lines.find(({ event_id }) => event_id === attributed.event.event_id);
  if (line === undefined) return claim;
  return { ...claim, data: { ...claim.data, attributed: { ...attributed, version: rowOf(line).version } } };
};

/** Settles the claims again, upon the order before them. */
export const settledAgain = (
  base: OrderState,
  claims: readonly Recorded<Claim>[],
  settles: Settles,
): { readonly order: OrderState; readonly rows: RowsByEvent } => {
  let order = base;
  let rows: RowsByEvent = new Map();
  for (const claim of claims) {
    const outcome = settles(ofThisVersion(claim, order), order);
    if (outcome.kind !== "emit") continue;
    rows = new Map([...rows, ...rowsIn(outcome)]);
    order = outcome.state;
  }
  return { order, rows };
};

const lettersIn = ({ base, claims }: Words): number =>
  claims.reduce((sum, text) => sum + text.length, base?.length ?? 0);

/**
 * Puts the oldest claims into the base, as long as there are too many, or no row of a file is the
 * first. Null if no row of a file is left, or if the base is too large.
 */
export const bounded = (words: Words, cause: Recorded<Claim>, settles: Settles): Words | null => {
  let left = words;
  for (;;) {
    const [first, ...rest] = left.claims;
    if (first === undefined) return null;
    const claim = claimFrom(first, cause);
    if (isOfFile(claim) && left.claims.length <= MOST_CLAIMS && lettersIn(left) <= MOST_LETTERS) return left;
    const { order } = settledAgain(baseOf(left), [claim], settles);
    if (order.lines.length > MOST_LINES_REPLAYED) return null;
    const written = left.written.filter(({ event_id }) => event_id !== claim.id || isRemembered(order, event_id));
    left = { base: encoded(order), claims: rest, written };
  }
};
/** The row of a copy is never written again. */
const isRemembered = ({ lines, refunds, events }: OrderState, eventId: string): boolean =>
  [...lines, ...refunds, ...events].some(({ event_id }) => event_id === eventId);

/** The words of an order after a claim that settle has applied to it. */
export const wordsAfter = (
  claim: Recorded<Claim>,
  before: OrderState,
  outcome: Outcome,
  settles: Settles,
): Words | null => {
  const known = wordsOf(before, claim);
  // Of a sale that is alone in its order everything follows from its line.
  const isAlone = claim.data.kind === "conversion" && isNothing(before);
  if (known === null && (!isOfFile(claim) || isAlone || !isWhole(before))) return null;
  if (known === null && before.lines.length > MOST_LINES_REPLAYED) return null;
  // What a job has computed for a row that had changed since was not applied.
  const { decision } = claim.data;
  const isComputed = decision?.kind === "reprocess" || decision?.kind === "recredit";
  if (known !== null && isComputed && outcome.events.length === 0) return before.words;
  const words: Words = known ?? { base: encoded(before), claims: [], written: [] };
  const added = {
    ...words,
    claims: [...words.claims, textOf(claim)],
    written: withRows(words.written, rowsIn(outcome)),
  };
  return bounded(added, claim, settles);
};
