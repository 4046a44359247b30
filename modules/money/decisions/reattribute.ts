// Moves sales to another partner, ends their review, or both.
import { DISPUTED_TOTAL, type Line } from "../../../processors/settle/order.ts";
import { conflict, invalid, type RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { settledWithin } from "../orders/order-lines.ts";
import { checkCredit } from "./creditable.ts";
import type { CreditDecision, Keep } from "./decide.ts";
import { findSales, lineNames, type NamedSale, onlySale, type Sale, saleNamed } from "./find-sales.ts";
import {
  acceptedOutcome,
  type DecidedSales,
  type DecisionPorts,
  type DecisionWords,
  type NewDecision,
  recordDecisions,
} from "./record-decisions.ts";

export interface Reattribution extends Omit<NamedSale, "event_id" | "product_id">, DecisionWords {
  /** Events of one sale or of several. */
  readonly event_ids?: readonly string[] | undefined;
  /** May be left out if a review ends. */
  readonly partner_id?: number | null | undefined;
  readonly campaign_id?: number | null | undefined;
  readonly review?: "release" | "reject" | undefined;
  /** Of a release. Needed where a total and lines of another worth are held. */
  readonly keep?: Keep | undefined;
}

export const noReview = (): RefusalError =>
  conflict("no_review", "no fraud review of it is open: it has ended, or there was none");

/** True if the input only ends a review. */
export const isRelease = ({ review, partner_id = null }: Reattribution): boolean =>
  review === "release" && partner_id === null;

type OfReview = readonly { readonly lines: readonly Pick<Line, "review">[] }[];
const isDisputed = (sales: OfReview): boolean =>
  sales.some(({ lines }) => lines.some((line) => line.review === DISPUTED_TOTAL));

/**
 * A release alone does not say which of a total and its lines is to be paid. Throws RefusalError:
 * invalid `required`, `not_allowed`.
 */
export const refuseKeep = ({ review, keep }: Pick<Reattribution, "review" | "keep">, sales: OfReview): void => {
  if (keep !== undefined && review !== "release") throw invalid("/keep", "not_allowed", "it is part of a release");
  if (review === "release" && keep === undefined && isDisputed(sales))
    throw invalid("/keep", "required", "the total and the lines of its order differ: say which of both stands");
};

/** The input in the form of `findSales`. */
export const namedByReattribution = ({ client_id, event_ids, order_id }: Reattribution) => ({
  client_id,
  named: event_ids === undefined ? [{ order_id }] : event_ids.map((event_id) => ({ event_id, order_id })),
});

/**
 * Two events of one line cause one decision, which answers both. Throws RefusalError: missing,
 * `client_id_required`, invalid `required`, conflict `no_review`, and the refusals of
 * `checkCredit`.
 */
export const reattributeSales = async (
  work: Work,
  ports: DecisionPorts,
  input: Reattribution,
): Promise<DecidedSales> => {
  const sales = await salesOf(work, ports, input);
  const { partner_id = null, campaign_id = null, review } = input;
  if (partner_id === null && review === undefined)
    throw invalid("/partner_id", "required", "name a partner, or how the review ends");
  if (partner_id === null && campaign_id !== null)
    throw invalid("/partner_id", "required", "a campaign is credited with its partner");
  refuseKeep(input, sales);
  for (const client_id of new Set(sales.map((sale) => sale.client_id)))
    await checkCredit(work.tx, client_id, { partner_id, campaign_id });
  const decisions = decisionsOf(work, input, sales);
  const made = [...decisions.values()].flat();
  if (isRelease(input) && sales.some((sale) => sale.lines.length > 0 && !sale.isHeldRefund))
    await refuseEnded(work, made);
  if (input.keep !== undefined && !isDisputed(sales)) await refuseIdleKeep(work, made);
  await recordDecisions(work, ports, made);
  // The last decision about a sale determines the result.
  const lastOf = (sale: Sale): string => decisions.get(nameOf(sale))!.at(-1)!.decided.decision_id;
  return { outcomes: sales.map((sale) => acceptedOutcome(lastOf(sale), sale.lines)), sales };
};

const salesOf = async (
  work: Work,
  { clickhouse }: DecisionPorts,
  { event_ids, ...input }: Reattribution,
): Promise<readonly Sale[]> => {
  if (event_ids === undefined) return [await saleNamed(clickhouse, work, input)];
  const withHeldRefunds = input.review !== undefined && (input.partner_id ?? null) === null;
  const names = { ...namedByReattribution({ event_ids, ...input }), withHeldRefunds };
  return (await findSales(clickhouse, work, names)).map(onlySale);
};

/** Returns the decisions by the name of the sale. */
const decisionsOf = (
  work: Work,
  { partner_id = null, campaign_id = null, review, keep, reason, actor }: Reattribution,
  sales: readonly Sale[],
): ReadonlyMap<string, readonly NewDecision[]> => {
  const words = { reason, actor, at: Date.now() };
  const decisions = new Map<string, readonly NewDecision[]>();
  for (const [n, sale] of sales.entries()) {
    if (decisions.has(nameOf(sale))) continue;
    const { client_id, subject, lines } = sale;
    const of = { ...words, client_id, subject };
    const none = { partner_id: null, campaign_id: null };
    const ended: readonly CreditDecision[] =
      review === undefined ? [] : [{ ...of, ...none, decision_id: work.idOf(n * 2), kind: review, keep }];
    const moved: readonly CreditDecision[] =
      partner_id === null
        ? []
        : [{ ...of, partner_id, campaign_id, decision_id: work.idOf(n * 2 + 1), kind: "reattribute" }];
    decisions.set(
      nameOf(sale),
      [...ended, ...moved].map((decided) => ({ decided, lines })),
    );
  }
  return decisions;
};

/**
 * Accepts a review that these decisions ended in an earlier attempt of the same request. Throws
 * RefusalError `no_review`.
 */
const refuseEnded = async ({ tx }: Work, made: readonly NewDecision[]): Promise<void> => {
  if (made.some(({ lines }) => lines.some(({ review }) => review !== null))) return;
  const before = await settledWithin(
    tx,
    made.map(({ decided }) => decided.decision_id),
  );
  if (![...before.values()].some(({ hasChanged }) => hasChanged)) throw noReview();
};

/**
 * Refuses to keep one of two where nothing is disputed: it would end another review in silence. An
 * earlier attempt of the same request may have ended the dispute, and a sale may be still to come.
 * Throws RefusalError: invalid `not_allowed`.
 */
const refuseIdleKeep = async ({ tx }: Work, made: readonly NewDecision[]): Promise<void> => {
  if (made.every(({ lines }) => lines.length === 0)) return;
  const ids = made.map(({ decided }) => decided.decision_id);
  if ((await settledWithin(tx, ids)).size > 0) return;
  throw invalid("/keep", "not_allowed", "no total of it is disputed with its lines: leave keep out");
};

const nameOf = (sale: Sale): string => lineNames(sale).join("\n");
