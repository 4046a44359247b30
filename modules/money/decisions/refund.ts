// Refunds a sale: a whole order, a product of it, or the line of an event.
import { isTotal } from "../../../processors/settle/order.ts";
import { conflict, invalid, missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { checkCredit } from "./creditable.ts";
import type { RefundDecision } from "./decide.ts";
import { findSales, type NamedSale, onlySale, type Sale, saleNamed } from "./find-sales.ts";
import {
  acceptedOutcome,
  type DecidedSales,
  type DecisionPorts,
  type DecisionWords,
  recordDecisions,
} from "./record-decisions.ts";
import { refundable } from "./refundable.ts";

/** An unknown sale cannot be refunded, because its refund would wait unnoticed. */
export interface RefundInput extends Omit<NamedSale, "isAwaited">, DecisionWords {
  /** A decimal; undefined: everything that is left. */
  readonly amount?: string | undefined;
  readonly currency?: string | undefined;
  readonly cause: RefundDecision["cause"];
  /** The id by which the refund is matched with the shop's report of it. */
  readonly refund_id?: string | null | undefined;
}

/**
 * Throws RefusalError: missing, `client_id_required`, conflict `client_archived`,
 * `already_refunded`, `refund_exceeds`, invalid `bad_amount`, `required`, `not_of_sale`.
 */
export const refundSale = async (work: Work, ports: DecisionPorts, input: RefundInput): Promise<DecidedSales> => {
  const sale = await soldAs(work, ports, input);
  const { client_id, subject, lines, order } = sale;
  await checkCredit(work.tx, client_id, { partner_id: null, campaign_id: null });
  const { reason, actor, cause, refund_id = null, amount: decimal, currency } = input;
  const decision_id = work.idOf(0);
  const amount = amountOf({ lines, refunds: order.refunds }, { decision_id, amount: decimal, currency });
  const words = { reason, actor, at: Date.now() };
  const decided: RefundDecision = {
    ...words,
    decision_id,
    client_id,
    subject,
    kind: "refund",
    amount,
    cause,
    refund_id,
  };
  await recordDecisions(work, ports, [{ decided, lines }]);
  return { outcomes: [acceptedOutcome(decision_id, lines)], sales: [sale] };
};

/**
 * Behind a total that a person kept there are no products to name. Throws RefusalError: missing,
 * `client_id_required`, invalid `not_of_sale`.
 */
const soldAs = async (work: Work, { clickhouse }: DecisionPorts, input: RefundInput): Promise<Sale> => {
  const { product_id, ...ofOrder } = input;
  const [match] = await findSales(clickhouse, work, { client_id: input.client_id, named: [input] });
  if (match !== undefined || product_id === undefined) return onlySale(match);
  const { lines } = await saleNamed(clickhouse, work, ofOrder);
  if (!lines.some((line) => line.stands && isTotal(line))) throw missing();
  const detail = "a person kept the total of its order, so it has no products: give back an amount of the order";
  throw invalid("/product_id", "not_of_sale", detail);
};

/** Throws RefusalError if the amount cannot be refunded. */
const amountOf = (...given: Parameters<typeof refundable>): RefundDecision["amount"] => {
  const answer = refundable(...given);
  if (answer.kind === "ok") return answer.amount;
  const { field, code, detail } = answer;
  throw field === null ? conflict(code, detail) : invalid(`/${field}`, code, detail);
};
