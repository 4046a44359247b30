// The life of one order: its first copy counts, a second copy is merged, a refund takes back, a
// decision has the last word.

import { divideHalfEven } from "../../domain/money.ts";
import type { Claim, Conversion, Decision, EventAttributed } from "../../schemas/generated.ts";
import { type Emit, type Emitted, emit, type Processor, type Recorded, type UnixMs } from "../../stream/flow.ts";
import { type Changes, creditAgain, creditLine } from "./credit-line.ts";
import { decideOrder, decideWaiting } from "./decide.ts";
import { isMoneyTaken, MERGE_WINDOW_MS, mergeCopy, rowOfCopy } from "./merge-copy.ts";
import { DEFAULT_CURRENCY, type Line, type OrderState, rowOf, rowText } from "./order.ts";
import { refund, refundOf, settleWaiting } from "./refund.ts";

type Settled = { readonly conversions: Conversion; readonly attributed: EventAttributed };

const isCredited = ({ credit }: EventAttributed): boolean =>
  credit.status === "attributed" && credit.partner_id !== null;
const saleValueOf = ({ event }: EventAttributed): bigint =>
  event.value_minor !== null && event.value_minor > 0n ? event.value_minor : 0n;
const currencyOf = ({ event }: EventAttributed): string => event.currency ?? DEFAULT_CURRENCY;

/**
 * An order has a line for each product; every other key (a lead, an install, a source's own) names
 * one thing.
 */
const productKeyOf = ({ order_key, attributed }: Claim): string =>
  order_key.startsWith("o:") ? (attributed.event.product_id ?? "") : "";

/** Conversions carry the time of their sale, so that commission finds the contract of then. */
const emitted = (
  rows: readonly { readonly row: EventAttributed; readonly at: UnixMs }[],
  { records }: Changes,
  state: OrderState,
): Emit<Settled, OrderState> =>
  emit<Settled, OrderState>(
    [
      ...rows.map(({ row, at }): Emitted<Settled> => ({ output: "attributed", data: row, at })),
      ...records.map((data): Emitted<Settled> => ({ output: "conversions", data, at: data.occurred_at })),
    ],
    state,
  );

const withLine = (lines: readonly Line[], line: Line): readonly Line[] =>
  lines.map((other) => (other.product_key === line.product_key ? line : other));

const firstCopy = (claim: Recorded<Claim>, order: OrderState): Emit<Settled, OrderState> => {
  const row = claim.data.attributed;
  const changes: Changes = { cause: claim, records: [] };
  const opened: Line = {
    product_key: productKeyOf(claim.data),
    status: "open",
    partner_id: null,
    campaign_id: null,
    event_id: claim.id,
    at: claim.at,
    received_at: claim.receivedAt,
    value_minor: saleValueOf(row),
    currency: currencyOf(row),
    has_server_money: !row.event.client_side && row.event.value_minor !== null,
    refunded_minor: 0n,
    refund_reason: null,
    is_returned: false,
    review: row.fraud.band === "review" ? "fraud_review" : null,
    is_decided: false,
    conversion_id: null,
    conversion_version: 0,
    copies: 0,
    row: rowText(row),
  };
  const { line, refunds } = settleWaiting(opened, order.refunds);
  const settled = isCredited(row) ? creditLine(changes, line, row) : line;
  const { line: decided, rows, decisions } = decideWaiting(changes, settled, order.decisions);
  const written = [row, ...rows].map((version) => ({ row: version, at: claim.at }));
  return emitted(written, changes, { ...order, lines: [...order.lines, decided], refunds, decisions });
};

/** What was refunded of a line in another currency keeps its share of the line. */
const refundedOf = (line: Line, valueMinor: bigint, currency: string): bigint => {
  if (currency !== line.currency)
    return line.value_minor === 0n ? 0n : divideHalfEven(line.refunded_minor * valueMinor, line.value_minor);
  return line.refunded_minor < valueMinor ? line.refunded_minor : valueMinor;
};

const revalued = (line: Line, row: EventAttributed, change: Pick<Line, "has_server_money" | "review">): Line => {
  const value = saleValueOf(row);
  const currency = currencyOf(row);
  const refunded = refundedOf(line, value, currency);
  return {
    ...line,
    value_minor: value,
    currency,
    has_server_money: change.has_server_money,
    refunded_minor: refunded,
    is_returned: value > 0n ? refunded === value : line.is_returned,
    review: change.review,
    copies: line.copies + 1,
    row: rowText(row),
  };
};

/**
 * It counts never again. In time it fills what the first copy lacked; a line that somebody holds
 * keeps its partner, and waits for a decision when another one claims it.
 */
const secondCopy = (claim: Recorded<Claim>, order: OrderState, line: Line): Emit<Settled, OrderState> => {
  const copy = claim.data.attributed;
  const changes: Changes = { cause: claim, records: [] };
  const copyRow = { row: rowOfCopy(copy, line.event_id), at: claim.at };
  if (Math.abs(claim.receivedAt - line.received_at) > MERGE_WINDOW_MS)
    return emitted([copyRow], changes, {
      ...order,
      lines: withLine(order.lines, { ...line, copies: line.copies + 1 }),
    });

  const first = rowOf(line);
  const takesMoney = isMoneyTaken(first.event, copy.event, line.has_server_money);
  const takesCredit = line.status === "open" && !line.is_decided && isCredited(copy);
  const isDisputed =
    line.status !== "open" &&
    !line.is_decided &&
    isCredited(copy) &&
    copy.credit.partner_id !== line.partner_id &&
    line.review === null;
  const review = isDisputed
    ? "claimed_by_another_partner"
    : takesCredit && copy.fraud.band === "review"
      ? "fraud_review"
      : line.review;
  const row = mergeCopy(first, copy, takesMoney, takesCredit);
  const { line: merged, refunds } = settleWaiting(
    revalued(line, row, { has_server_money: line.has_server_money || (takesMoney && !copy.event.client_side), review }),
    order.refunds,
  );
  /** The segment chooses the contract, so a segment that was missing changes money too. */
  const isMoneyChanged =
    merged.value_minor !== line.value_minor ||
    merged.currency !== line.currency ||
    row.event.product_line !== first.event.product_line;

  let settled = merged;
  if (takesCredit) settled = creditLine(changes, merged, row);
  else if (line.status !== "open" && (isMoneyChanged || isDisputed))
    settled = creditAgain(changes, line, merged, row, isMoneyChanged ? "changed_money" : "claimed_by_another_partner");
  return emitted([...(row === first ? [] : [{ row, at: line.at }]), copyRow], changes, {
    ...order,
    lines: withLine(order.lines, settled),
    refunds,
  });
};

const refundClaim = (claim: Recorded<Claim>, order: OrderState): Emit<Settled, OrderState> => {
  const changes: Changes = { cause: claim, records: [] };
  const state = refund(changes, order, refundOf(claim));
  return emitted([{ row: claim.data.attributed, at: claim.at }], changes, state);
};

const decisionClaim = (claim: Recorded<Claim>, decision: Decision, order: OrderState): Emit<Settled, OrderState> => {
  const changes: Changes = { cause: claim, records: [], decisionId: decision.decision_id };
  const productKey = decision.scope === "order" ? null : productKeyOf(claim.data);
  const { rows, state } = decideOrder(changes, { decision, product_key: productKey }, order);
  return emitted(rows, changes, state);
};

/**
 * Decides what a claim changes of its order (docs/design/money.md, "Orders"). Every claim but a
 * decision leaves the row of its event, a credited sale also a conversion, and what takes it back a
 * further record of it. Nothing is dropped or rejected: every readable claim has its outcome.
 */
export const settle: Processor<Claim, Settled, OrderState> = (claim, order) => {
  if (claim.data.decision !== null) return decisionClaim(claim, claim.data.decision, order);
  if (claim.data.kind === "refund") return refundClaim(claim, order);
  const productKey = productKeyOf(claim.data);
  const line = order.lines.find((known) => known.product_key === productKey);
  return line === undefined ? firstCopy(claim, order) : secondCopy(claim, order, line);
};
