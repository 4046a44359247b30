// The life of one order: the first copy counts, further copies are merged, refunds take back, and
// decisions have the last word.

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
import { type Changes, withoutPassing } from "./credit-line.ts";
import { decideOrder, decideWaiting } from "./decisions/decide.ts";
import { isLead, leadIdOf, meet, nameOf, productKeyOf } from "./match-line.ts";
import { MERGE_WINDOW_MS, rowOfCopy, withoutGoods } from "./merge-copy.ts";
import { counted, merged, withIds } from "./merge-line.ts";
import {
  DEFAULT_CURRENCY,
  DISPUTED,
  isClaimedByAnother,
  isCredited,
  type Line,
  linesIn,
  type OrderState,
  outgrows,
  refundableId,
  rowOf,
  rowText,
  saleValueOf,
  withClaim,
} from "./order.ts";
import { asTheirSales } from "./refund.ts";
import { moveRefund, takeRefund } from "./refund-claim.ts";

type SettleOutputs = { readonly conversions: Conversion; readonly attributed: EventAttributed };
type Rows = readonly { readonly row: EventAttributed; readonly at: UnixMs }[];
type Outcome = Emit<SettleOutputs, OrderState>;

/** A real order has fewer lines, and a claim about all lines would take seconds. */
export const MOST_LINES = 2_000;

const TOTAL_AND_LINES = "order_total_and_lines";

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
    has_server_money: !row.event.client_side && row.event.value_minor !== null,
    has_currency: false,
    refunded_minor: 0n,
    settled_minor: 0n,
    refund_reason: null,
    is_returned: false,
    claimed_by: withClaim([], row),
    review,
    is_decided: false,
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
 * If an order has both a total and single lines, one of them would be paid twice. So the new line
 * is held, and the total too if it is recent.
 */
const totalHeld = (total: Line | null, receivedAt: UnixMs): readonly ChangedLine[] =>
  total === null || total.is_decided || total.review !== null || receivedAt - total.received_at > MERGE_WINDOW_MS
    ? []
    : [
        {
          line: { ...total, review: TOTAL_AND_LINES },
          row: rowOf(total),
          isRewritten: false,
          takesCredit: false,
          reason: TOTAL_AND_LINES,
        },
      ];

const firstCopy = (
  claim: Recorded<Claim>,
  order: OrderState,
  total: Line | null,
): Outcome | Reject<"order_too_large"> => {
  if (linesIn(order) >= MOST_LINES) return reject("order_too_large");
  const row = { ...claim.data.attributed, refunded_minor: 0n };
  const changes: Changes = { cause: claim, records: [] };
  const review =
    row.fraud.band === "review"
      ? "fraud_review"
      : total !== null
        ? TOTAL_AND_LINES
        : isClaimedByAnother(order, row)
          ? DISPUTED
          : null;
  const first = {
    line: opened(claim, row, { number: linesIn(order), review }),
    row,
    isRewritten: true,
    takesCredit: isCredited(row),
    reason: null,
  };
  const changed = changeLines(changes, order, [...totalHeld(total, claim.receivedAt), first]);
  const settled = changed.find(({ event_id }) => event_id === claim.id)!;
  const { line: decided, rows, decisions } = decideWaiting(changes, settled, order.decisions, isLead(claim.data));
  const lines = changed.map((line) => (line === settled ? decided : line));
  const written = [row, ...rows].map((version) => ({ row: version, at: claim.at }));
  const taken = asTheirSales(order.refunds, lines, null);
  const claimed_by = withClaim(order.claimed_by, row);
  const left = { ...order, lines, refunds: taken.refunds, decisions, claimed_by };
  return answered(order, [...written, ...taken.rows], withoutPassing(changes, decided), left);
};

const secondCopy = (claim: Recorded<Claim>, order: OrderState, copied: readonly Line[]): Outcome => {
  const changes: Changes = { cause: claim, records: [] };
  const copy = claim.data.attributed;
  const copyRow = { row: rowOfCopy(copy, copied[0]!.event_id), at: claim.at };
  const inTime = copied.filter((line) => Math.abs(claim.receivedAt - line.received_at) <= MERGE_WINDOW_MS);
  const late = copied.filter((line) => !inTime.includes(line));
  const said = copied.length > 1 ? withoutGoods(copy) : copy;
  const touched = inTime.map((line) => withIds(merged(line, said, order), claim.data));
  // Late copies are counted too. They add nothing to their line, but a refund that names one may
  // have waited for it.
  const counting = { lines: counted(order, late, refundableId(copy.event)), refunds: order.refunds, before: order };
  const changed = changeLines(changes, counting, touched);
  const product = productKeyOf(claim.data);
  const isNamedNow = copied.length === 1 && copied[0]!.product_key !== product && product !== "";
  const asked = isNamedNow ? order.decisions.filter(({ product_key }) => product_key === product) : [];
  const settled = changed.find(({ event_id }) => event_id === copied[0]!.event_id)!;
  const { line: decided, rows } = decideWaiting(changes, settled, asked, false);
  const lines = changed.map((line) => (line === settled ? decided : line));
  const taken = asTheirSales(order.refunds, lines, null);
  const written = [
    ...touched.flatMap(({ line, row, isRewritten }) => (isRewritten ? [{ row, at: line.at }] : [])),
    ...rows.map((row) => ({ row, at: settled.at })),
    copyRow,
    ...taken.rows,
  ];
  return answered(order, written, withoutPassing(changes, decided), {
    ...order,
    lines,
    refunds: taken.refunds,
    // An unchanged list keeps its identity, so that the head is not written again.
    decisions: asked.length === 0 ? order.decisions : order.decisions.filter((one) => !asked.includes(one)),
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
  const { rows, state } = decideOrder(
    changes,
    {
      decision,
      product_key: isWhole ? null : productKeyOf(claim.data),
      name: isWhole ? null : nameOf(claim.data),
      event_id: isWhole ? null : claim.data.attributed.event.event_id,
    },
    order,
  );
  return emitted(rows, changes, state);
};

const settledBy = (claim: Recorded<Claim>, order: OrderState): Outcome | Reject<"order_too_large"> => {
  if (claim.data.decision !== null) return decisionClaim(claim, claim.data.decision, order);
  if (claim.data.kind === "refund") return refundClaim(claim, order);
  const met = meet(claim, order);
  if (met.kind === "new") return firstCopy(claim, order, met.total);
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
  return outcome.kind === "emit" && outgrows(order, outcome.state) ? reject("order_too_large") : outcome;
};
