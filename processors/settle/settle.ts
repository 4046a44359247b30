// The life of one order: the first copy counts, further copies are merged, refunds take back, and
// decisions have the last word.

import { eventTimeOf } from "../../domain/money-time.ts";
import type { Claim, Conversion, Decision, EventAttributed } from "../../schemas/generated.ts";
import {
  type Emit,
  type Emitted,
  emit,
  type Processor,
  type Recorded,
  type Reject,
  reject,
  type UnixMs,
} from "../../stream/flow.ts";
import { type ChangedLine, changeLines, withRefunds } from "./change-lines.ts";
import { MERGE_WINDOW_MS, rowOfCopy, withoutGoods } from "./copies/merge-copy.ts";
import { amended, type Copy, counted, merged, withIds } from "./copies/merge-line.ts";
import { orderWordOf } from "./copies/segment.ts";
import { type Changes, withoutPassing } from "./credit-line.ts";
import { decideOrder, decideWaiting } from "./decisions/decide.ts";
import { isHoldable, isLead, leadIdOf, type Meets, meet, nameOf, productKeyOf, timeOfEvent } from "./match-line.ts";
import {
  DEFAULT_CURRENCY,
  DISPUTED,
  isClaimedByAnother,
  isCredited,
  isSameProduct,
  isTotal,
  isWithoutProduct,
  type Line,
  linesIn,
  type OrderState,
  outgrows,
  productOf,
  refundableId,
  rowOf,
  rowText,
  saleValueOf,
  TOTAL_AND_LINES,
  type WaitingDecision,
  withClaim,
} from "./order.ts";
import { asTheirSales } from "./refund.ts";
import { decideRefund, moveRefund, takeRefund } from "./refund-claim.ts";
import { compared } from "./totals/total.ts";
import { withdraw } from "./undo/withdraw.ts";
import { wordsAfter } from "./undo/words.ts";

type SettleOutputs = { readonly conversions: Conversion; readonly attributed: EventAttributed };
type Rows = readonly { readonly row: EventAttributed; readonly at: UnixMs }[];
type Outcome = Emit<SettleOutputs, OrderState>;

/** A real order has fewer lines, and a claim about all lines would take seconds. */
export const MOST_LINES = 2_000;

/** Conversions carry the time of their sale, so that commission finds the contract of that time. */
const emitted = (rows: Rows, { records }: Changes, state: OrderState): Outcome =>
  emit<SettleOutputs, OrderState>(
    [
      ...rows.map(({ row, at }): Emitted<SettleOutputs> => ({ output: "attributed", data: row, at })),
      ...records.map((data): Emitted<SettleOutputs> => ({ output: "conversions", data, at: data.occurred_at })),
    ],
    state,
  );

/** Adds the refund shares to the rows before they are emitted. */
const answered = (before: OrderState, written: Rows, changes: Changes, after: OrderState): Outcome => {
  const { rows, state } = withRefunds(before, after, written);
  return emitted(rows, changes, state);
};

const datedBy = ({ at, data }: Recorded<Claim>): Line["dated"] => {
  const { dated_by: by, dated_because: because, attributed } = data;
  return by === null ? null : { by, because, event_at: eventTimeOf({ at, data: attributed }) };
};

const opened = (
  claim: Recorded<Claim>,
  row: EventAttributed,
  { number, review }: Pick<Line, "number" | "review">,
): Line => {
  return {
    number,
    product_key: productKeyOf(claim.data),
    name: nameOf(claim.data),
    lead_id: leadIdOf(claim.data),
    status: "open",
    partner_id: null,
    campaign_id: null,
    event_id: claim.id,
    at: claim.at,
    received_at: claim.receivedAt,
    value_minor: saleValueOf(row),
    currency: row.event.currency ?? claim.data.currency ?? DEFAULT_CURRENCY,
    dated: datedBy(claim),
    has_server_money: !row.event.client_side && row.event.value_minor !== null,
    has_currency: false,
    money_from: null,
    amended_by: null,
    segment_word: null,
    refunded_minor: 0n,
    settled_minor: 0n,
    refund_reason: null,
    is_returned: false,
    claimed_by: withClaim([], row),
    review,
    held_for: null,
    stands: false,
    total_from: null,
    is_decided: false,
    holders: [],
    earns_nothing: false,
    conversion_id: null,
    conversion_version: 0,
    known_at: null,
    copies: 0,
    copied: [],
    row: rowText(row),
  };
};

/**
 * A line that should have named its product may be counted twice beside another one. So one of both
 * is held, which is that one if it is recent.
 */
const unnamedHeld = (line: Line | null, receivedAt: UnixMs): readonly ChangedLine[] =>
  line === null || !isHoldable(line, receivedAt)
    ? []
    : [
        {
          line: { ...line, review: TOTAL_AND_LINES },
          row: rowOf(line),
          isRewritten: false,
          takesCredit: false,
          reason: TOTAL_AND_LINES,
        },
      ];

const reviewOf = (row: EventAttributed, order: OrderState, isUnsure: boolean): string | null => {
  if (row.fraud.band === "review") return "fraud_review";
  if (isUnsure) return TOTAL_AND_LINES;
  return isClaimedByAnother(order, row) ? DISPUTED : null;
};

const firstCopy = (
  claim: Recorded<Claim>,
  order: OrderState,
  { unnamed, isUnsure }: Extract<Meets, { readonly kind: "new" }>,
): Outcome | Reject<"order_too_large"> => {
  if (linesIn(order) >= MOST_LINES) return reject("order_too_large");
  const row = { ...claim.data.attributed, refunded_minor: 0n };
  const changes: Changes = { cause: claim, records: [] };
  const line = opened(claim, row, { number: linesIn(order), review: reviewOf(row, order, isUnsure) });
  const first = { line, row, isRewritten: true, takesCredit: isCredited(row), reason: null };
  const all = [...unnamedHeld(unnamed, claim.receivedAt), first];
  const { lines: known, touched, rows: merged } = compared(changes, order, all, line);
  const changed = changeLines(changes, { lines: known, refunds: order.refunds, before: order }, touched);
  const settled = changed.find(({ event_id }) => event_id === claim.id)!;
  const { line: decided, rows, decisions } = decideWaiting(changes, settled, order.decisions, isLead(claim.data));
  const lines = changed.map((one) => (one === settled ? decided : one));
  const taken = asTheirSales(order.refunds, lines, null);
  const written = [
    ...rowsOf(touched),
    ...merged,
    ...rows.map((version) => ({ row: version, at: claim.at })),
    ...taken.rows,
  ];
  const claimed_by = withClaim(order.claimed_by, row);
  const left = { ...order, lines, refunds: taken.refunds, decisions, claimed_by };
  return answered(order, written, withoutPassing(changes, decided), left);
};

const rowsOf = (touched: readonly ChangedLine[]): Rows =>
  touched.flatMap(({ line, row, isRewritten }) => (isRewritten ? [{ row, at: line.at }] : []));

/**
 * A copy of several lines, or of a total that stands, says nothing of their money and goods. Its
 * segment is a word of the whole order.
 */
const saidBy = (claim: Recorded<Claim>, copied: readonly Line[]): Copy => {
  const { data } = claim;
  const at = timeOfEvent(claim);
  const product_key = productKeyOf(data);
  const isOfTotal = copied[0]!.stands && isTotal(copied[0]!) && product_key !== "";
  const { event, ...row } = data.attributed;
  if (copied.length === 1 && !isOfTotal) return { row: data.attributed, at, product_key, orderWord: null };
  return {
    row: withoutGoods({ ...row, event: { ...event, product_id: null } }),
    ...{ at, product_key, orderWord: orderWordOf(null, event) },
  };
};

const secondCopy = (claim: Recorded<Claim>, order: OrderState, copied: readonly Line[]): Outcome => {
  const changes: Changes = { cause: claim, records: [] };
  const copy = claim.data.attributed;
  const inTime = copied.filter((line) => Math.abs(claim.receivedAt - line.received_at) <= MERGE_WINDOW_MS);
  const late = copied.filter((line) => !inTime.includes(line));
  const said = saidBy(claim, copied);
  const own = [
    ...inTime.map((line) => withIds(merged(line, said, order), claim.data)),
    ...late.flatMap((line) => amended(line, said, order) ?? []),
  ];
  // Late copies are counted too. They add only a server's amount to their line, but a refund that
  // names one may have waited for it.
  const counting = { ...order, lines: counted(order, late, refundableId(copy.event)) };
  const { lines: known, touched, rows: gone } = compared(changes, counting, own, null);
  const changed = changeLines(changes, { lines: known, refunds: order.refunds, before: order }, touched);
  const product = said.product_key;
  const isNamedNow =
    copied.length === 1 && isWithoutProduct(copied[0]!) && productOf(product) !== "" && !copied[0]!.stands;
  const isAsked = ({ product_key, is_taken }: WaitingDecision): boolean =>
    product_key !== null && isSameProduct(product_key, product) && !is_taken;
  const asked = isNamedNow ? order.decisions.filter(isAsked) : [];
  // If the copy merged its total into the lines, it is a copy of the first of them.
  const { event_id: first } = copied[0]!;
  const into = gone.find(({ row }) => row.event.event_id === first)?.row.merged_into ?? first;
  const settled = changed.find(({ event_id }) => event_id === into)!;
  const { line: decided, rows, decisions } = decideWaiting(changes, settled, asked, false);
  const lines = changed.map((line) => (line === settled ? decided : line));
  const taken = asTheirSales(order.refunds, lines, null);
  const written = [
    ...rowsOf(touched),
    ...gone,
    ...rows.map((row) => ({ row, at: settled.at })),
    { row: rowOfCopy(copy, settled.event_id), at: claim.at },
    ...taken.rows,
  ];
  return answered(order, written, withoutPassing(changes, decided), {
    ...order,
    lines,
    refunds: taken.refunds,
    // An unchanged list keeps its identity, so that the head is not written again.
    decisions:
      asked.length === 0 ? order.decisions : order.decisions.map((one) => decisions[asked.indexOf(one)] ?? one),
    claimed_by: inTime.length === 0 ? order.claimed_by : withClaim(order.claimed_by, copy),
  });
};

const refundClaim = (claim: Recorded<Claim>, order: OrderState): Outcome => {
  const changes: Changes = { cause: claim, records: [] };
  const { rows, state } = claim.data.moved === null ? takeRefund(changes, order) : moveRefund(changes, order);
  return answered(order, rows, changes, state);
};

const decisionClaim = (claim: Recorded<Claim>, decision: Decision, order: OrderState): Outcome => {
  const changes: Changes = { cause: claim, records: [], decisionId: decision.decision_id };
  const isWhole = decision.scope === "order";
  if (decision.withdraws === true) {
    const { rows, state } = withdraw(changes, order, settledBy);
    return answered(order, rows, changes, state);
  }
  if (decision.scope === "line" && claim.data.attributed.event.t === "refund") {
    const decided = decideRefund(changes, decision, order);
    return answered(order, decided.rows, changes, decided.state);
  }
  const { rows, state } = decideOrder(
    changes,
    {
      decision,
      product_key: isWhole ? null : productKeyOf(claim.data),
      name: isWhole ? null : nameOf(claim.data),
      event_id: isWhole ? null : claim.data.attributed.event.event_id,
      is_taken: false,
    },
    order,
  );
  return decision.keep == null ? emitted(rows, changes, state) : answered(order, rows, changes, state);
};

const settledBy = (claim: Recorded<Claim>, order: OrderState): Outcome | Reject<"order_too_large"> => {
  if (claim.data.decision !== null) return decisionClaim(claim, claim.data.decision, order);
  if (claim.data.kind === "refund") return refundClaim(claim, order);
  const met = meet(claim, order);
  if (met.kind === "new") return firstCopy(claim, order, met);
  return secondCopy(claim, order, met.kind === "copy" ? [met.line] : met.lines);
};

/**
 * Computes what a claim changes in its order (docs/design/money.md). Every claim except a decision
 * emits the row of its own event. A credited sale emits a conversion, and whatever takes it back
 * emits a record of the same conversion. Never drops; rejects only what would exceed the limits of
 * an order.
 */
export const settle: Processor<Claim, SettleOutputs, OrderState, null, "order_too_large"> = (claim, order) => {
  const outcome = settledBy(claim, order);
  if (outcome.kind !== "emit") return outcome;
  if (outgrows(order, outcome.state)) return reject("order_too_large");
  if (claim.data.decision?.withdraws === true) return outcome;
  const words = wordsAfter(claim, order, outcome, settledBy);
  return words === outcome.state.words ? outcome : { ...outcome, state: { ...outcome.state, words } };
};
