// Withdraws what a row of an undone file said of its order: the order becomes what the other claims
// make of it, and what was booked for the row goes back (docs/design/money.md, rule 36).
import { refundedEventOf } from "../../../domain/refunds.ts";
import type { Claim, EventAttributed } from "../../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../../stream/flow.ts";
import { type Changes, closeLine, creditAgain, creditLine, takeBack } from "../credit-line.ts";
import { isLead } from "../match-line.ts";
import { isSameProduct, type Line, type OrderState, refundableId, rowOf, rowText, type Words } from "../order.ts";
import { isGivenSince, UNDONE, undoneRow, type WithdrawResult, withWithdrawn } from "./undone-row.ts";
import { withdrawWithoutWords } from "./without-words.ts";
import {
  baseOf,
  bounded,
  claimsOf,
  contentOf,
  type RowsByEvent,
  type Settles,
  settledAgain,
  textOf,
  wordsOf,
  writtenAs,
} from "./words.ts";

const isSameSale = (a: Line, b: Line, claim: Recorded<Claim>): boolean =>
  !isLead(claim.data) && a.name === b.name && isSameProduct(a.product_key, b.product_key);

/** What is left of a line once the row says nothing of it any more. */
const leftOf = (line: Line, lines: readonly Line[], { cause }: Changes): Line | undefined =>
  lines.find(({ event_id }) => event_id === line.event_id) ??
  lines.find((one) => line.copied.includes(refundableId(rowOf(one).event))) ??
  lines.find((one) => isSameSale(one, line, cause));

/**
 * What others say of the event of the row is about the sale: a decision about a lead goes over to
 * its next copy. A refund that was moved here names the event that its sender had named, since
 * that may be another line now.
 */
const withoutNaming = (claims: readonly Recorded<Claim>[], id: string, line: Line | undefined) => {
  const next = line === undefined ? undefined : claims.find(({ data }) => isNextOf(line, data));
  return claims.map((claim): Recorded<Claim> => {
    const { data } = claim;
    const { event } = data.attributed;
    const named = data.kind === "refund" ? refundedEventOf(event) : null;
    const isMovedHere = data.moved !== null && data.line_event_id !== null;
    if (named !== null && (data.line_event_id === id || isMovedHere))
      return { ...claim, data: { ...data, line_event_id: named } };
    const isAboutLead = data.decision !== null && isLead(data) && event.event_id === id;
    if (!isAboutLead || next === undefined) return claim;
    const { event_id } = next.data.attributed.event;
    return { ...claim, data: { ...data, attributed: { ...data.attributed, event: { ...event, event_id } } } };
  });
};
const isNextOf = ({ copied }: Line, { kind, attributed }: Claim): boolean =>
  kind === "conversion" && refundableId(attributed.event) === copied[0];

/**
 * True if a conversion of the one line says what one of the other would.
 * Why it is held moves no money.
 */
const isSameConversion = (a: Line, b: Line): boolean =>
  a.partner_id === b.partner_id &&
  a.campaign_id === b.campaign_id &&
  a.value_minor === b.value_minor &&
  a.currency === b.currency &&
  (a.review === null) === (b.review === null) &&
  a.known_at === b.known_at &&
  a.earns_nothing === b.earns_nothing &&
  rowOf(a).event.product_line === rowOf(b).event.product_line;

const withConversionOf = ({ conversion_id, conversion_version }: Line, after: Line): Line => ({
  ...after,
  conversion_id,
  conversion_version,
});

/** The line as the other claims make it, with the conversion that says the same and stands. */
const withConversion = (changes: Changes, before: Line, after: Line): Line => {
  const kept = withConversionOf(before, after);
  if (before.status === "open" || after.status === "open") return kept;
  const part = after.refunded_minor - before.refunded_minor;
  if (part < 0n || (before.is_returned && !after.is_returned))
    return creditAgain(changes, before, kept, rowOf(after), "refund_spread");
  const isTaken = part > 0n || (after.is_returned && !before.is_returned);
  return isTaken ? takeBack(changes, { ...kept, status: before.status }, part, after.refund_reason) : kept;
};

/**
 * Closes what is gone or says something else now, before anything is opened, so that a cap has room
 * for it.
 */
const booked = (changes: Changes, before: readonly Line[], after: readonly Line[]): readonly Line[] => {
  const now = new Map(after.map((line) => [line.event_id, line]));
  const known = new Map<string, Line>();
  for (const line of before) {
    const same = now.get(line.event_id);
    const isSame = same !== undefined && isSameConversion(line, same);
    // Refunds have left nothing to credit again, so only what is still credited goes back.
    const isGone = same?.is_returned === true && same.partner_id !== null && same.partner_id === line.partner_id;
    if (isSame) known.set(line.event_id, line);
    else {
      const closed = closeLine(changes, line, UNDONE);
      if (isGone) known.set(line.event_id, withConversionOf(closed, same));
    }
  }
  return after.map((line) => {
    const one = known.get(line.event_id);
    if (one !== undefined) return withConversion(changes, one, line);
    const isOpen = line.partner_id === null || line.status === "open";
    return isOpen ? line : creditLine(changes, line, rowOf(line), line.known_at ?? line.received_at);
  });
};

/** The rows that an order already had before its words. */
const rowsOfBase = ({ lines, events, refunds }: OrderState): RowsByEvent =>
  new Map([
    ...lines.map((line) => [line.event_id, { row: rowOf(line), at: line.at }] as const),
    ...[...events, ...refunds].flatMap((one) => {
      if (one.row === null) return [];
      const row = rowOf({ row: one.row });
      return [[one.event_id, { row, at: row.event.ts }] as const];
    }),
  ]);

/** The rows with the versions that follow those that are written, and which of them are new. */
const versioned = (words: Words, base: RowsByEvent, rows: RowsByEvent) => {
  const before = new Map([...base.values()].map(({ row }) => [row.event.event_id, writtenAs(row)]));
  const written = new Map([...before, ...words.written.map((one) => [one.event_id, one] as const)]);
  const all = new Map<string, { readonly row: EventAttributed; readonly at: UnixMs; readonly isNew: boolean }>();
  for (const [event_id, { row, at }] of new Map([...base, ...rows])) {
    const known = written.get(event_id);
    const isNew = known?.content !== contentOf(row);
    all.set(event_id, { row: { ...row, version: (known?.version ?? 0) + (isNew ? 1 : 0) }, at, isNew });
  }
  return all;
};

/** Gives the remembered rows of an order their versions. */
const withVersions = (order: OrderState, rows: ReadonlyMap<string, { readonly row: EventAttributed }>): OrderState => {
  const text = <T extends { readonly event_id: string; readonly row: string | null }>(one: T): T => {
    const found = rows.get(one.event_id);
    return one.row === null || found === undefined ? one : { ...one, row: rowText(found.row) };
  };
  return {
    ...order,
    lines: order.lines.map(text),
    events: order.events.map(text),
    refunds: order.refunds.map(text),
  };
};

/** The claim by which the row of the file has come. */
const ownIn = (claims: readonly Recorded<Claim>[], { cause }: Changes): Recorded<Claim> | undefined => {
  const { event_id, import_id } = cause.data.attributed.event;
  return claims.find(
    ({ data: { decision, attributed } }) =>
      decision === null && attributed.event.event_id === event_id && attributed.event.import_id === import_id,
  );
};

/** The words without the withdrawn one, and with the rows that are written now. */
const wordsLeft = (
  words: Words,
  rest: readonly Recorded<Claim>[],
  undone: string,
  fresh: readonly EventAttributed[],
): Words => {
  const gone = new Set([undone, ...fresh.map(({ event }) => event.event_id)]);
  const written = [...words.written.filter(({ event_id }) => !gone.has(event_id)), ...fresh.map(writtenAs)];
  return { base: words.base, claims: rest.map(textOf), written };
};

/**
 * Settles the other claims of the order again and books the difference. Nothing changes if the row
 * is no word of the order, or if all that is left of its line is what a person has decided.
 */
export const withdraw = (changes: Changes, order: OrderState, settles: Settles): WithdrawResult => {
  const { cause, decisionId } = changes;
  const words = wordsOf(order, cause);
  const said = words === null ? [] : claimsOf(words, cause);
  const own = ownIn(said, changes);
  if (words === null || own === undefined) return withdrawWithoutWords(changes, order);
  const { attributed } = own.data;
  const { event_id } = attributed.event;
  const made = order.lines.find((one) => one.event_id === event_id);
  const line = made ?? order.lines.find(({ copied }) => copied.includes(refundableId(attributed.event)));
  const others = said.filter(({ data }) => data.decision !== null || data.attributed.event.event_id !== event_id);
  const rest = withoutNaming(others, event_id, made);
  const base = baseOf(words);
  const again = settledAgain(base, rest, settles);
  const left = line === undefined ? undefined : leftOf(line, again.order.lines, changes);
  if (line !== undefined && left === undefined && isGivenSince(line, attributed)) return { rows: [], state: order };
  const rows = versioned(words, rowsOfBase(base), again.rows);
  const next = withVersions(again.order, rows);
  const fresh = [...rows.values()].filter(({ isNew }) => isNew).map(({ row, at }) => ({ row, at }));
  const version = (words.written.find((one) => one.event_id === event_id)?.version ?? attributed.version) + 1;
  const undone = undoneRow(attributed, version, left?.event_id ?? decisionId!);
  const kept = wordsLeft(
    words,
    rest,
    event_id,
    fresh.map(({ row }) => row),
  );
  return {
    rows: [...fresh, { row: undone, at: own.at }],
    state: {
      ...next,
      lines: booked(changes, order.lines, next.lines),
      parts: order.parts,
      withdrawn: withWithdrawn(order, event_id),
      words: bounded(kept, cause, settles),
    },
  };
};
