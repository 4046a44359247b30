// Returns the outcomes of decisions once settle has applied them, or after 5 s.
import type { Pool } from "pg";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { Line } from "../../../processors/settle/order.ts";
import { codeOf } from "../../base/refusal.ts";
import { isOvertaken, whenSettled } from "../orders/order-lines.ts";
import { rememberedOrders } from "../orders/remembered-orders.ts";
import { alreadyCredited } from "./assign.ts";
import { linesOf, memoryKeyOf } from "./decide.ts";
import { newestVersion, type Sale, type SaleMatch } from "./find-sales.ts";
import { noReview } from "./reattribute.ts";
import type { DecidedSales, DecisionOutcome } from "./record-decisions.ts";

export interface FollowSettings {
  /**
   * The partner to which the n-th sale is assigned; only its lines without a credit are affected.
   */
  readonly assignedTo?: (n: number) => number;
  /** True if the only decision is to end a review. */
  readonly isRelease?: boolean;
  /** If true, a decision that came too late only rejects its own item, not the whole request. */
  readonly isEach?: boolean;
}

/**
 * Runs after the commit. Throws RefusalError if another decision about the sale came first:
 * conflict `already_credited`, `no_review`.
 */
export const followDecisions = async (
  pool: Pool,
  { outcomes, sales }: DecidedSales,
  { assignedTo, isRelease = false, isEach = false }: FollowSettings,
): Promise<readonly DecisionOutcome[]> => {
  const ids = outcomes.flatMap((one) => (one.status === "accepted" ? [one.decision_id!] : []));
  if (ids.length === 0) return outcomes;
  const settled = await whenSettled(pool, [...new Set(ids)]);
  const isKnown = sales.some((sale) => typeof sale === "object" && sale.lines.length > 0);
  if (isRelease && isKnown && ids.every((id) => settled.get(id)?.hasChanged === false)) throw noReview();
  const now = await linesNow(pool, sales);
  return outcomes.map((one, n) => {
    const mine = one.decision_id === null ? undefined : settled.get(one.decision_id);
    if (one.status !== "accepted" || mine === undefined) return one;
    const lines = now[n]!;
    const version = newestVersion(lines) ?? one.version;
    if (assignedTo === undefined || !isOvertaken(mine, assignedTo(n), lines))
      return { ...one, status: "applied", version };
    if (!isEach) throw alreadyCredited();
    return { ...one, status: "rejected", code: codeOf(alreadyCredited()), version };
  });
};

/** The current lines of each sale. */
const linesNow = async (pool: Pool, matches: readonly SaleMatch[]): Promise<readonly (readonly Line[])[]> => {
  const sales = matches.map((match): Sale | undefined => (typeof match === "object" ? match : undefined));
  const keys = [...new Set(sales.flatMap((sale) => (sale === undefined ? [] : [memoryKeyOf(sale)])))];
  const orders = await transaction(pool, null, (tx) => rememberedOrders(tx, keys), { isReadOnly: true });
  return sales.map((sale) =>
    sale === undefined ? [] : linesOf(sale.subject, orders.get(memoryKeyOf(sale))?.lines ?? []),
  );
};
