// Decides within the one transaction of a write, and answers once settle has applied it, or after
// 5 s.
import { dayOf, lockedFrom } from "../../../domain/calendar.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import { auditOf, claimOf, type Decided, linesOf, memoryKeyOf } from "../../../modules/money/orders/decide.ts";
import { isOvertaken, whenSettled } from "../../../modules/money/orders/order-lines.ts";
import { rememberedOrders } from "../../../modules/money/orders/remembered.ts";
import type { Line } from "../../../processors/settle/order.ts";
import type { ApiPorts, Ask, Reply, Work } from "../route.ts";
import {
  alreadyCredited,
  decisionsAway,
  type FoundSale,
  newestVersion,
  noReview,
  type Sale,
  type Seen,
} from "./named-sales.ts";

export type DecisionPorts = Pick<ApiPorts, "clickhouse" | "pool" | "decide">;

export interface Made {
  readonly decided: Decided;
  readonly lines: readonly Line[];
}

/**
 * The audit first, then the log, and then the commit. A process that dies between the last two has
 * decided without an audit row; the same request with its key is the same decision, and writes it.
 */
export const put = async (
  { decide }: DecisionPorts,
  { audit }: Work,
  made: readonly Made[],
  action?: string,
): Promise<void> => {
  await audit(...made.map(({ decided, lines }) => auditOf(decided, lines, action)));
  if (made.length > 0) await decide(made.map(({ decided }) => claimOf(decided))).catch(decisionsAway);
};

/** What a decision about these lines is answered before settle has applied it. */
export const outcomeOf = (decisionId: string, lines: readonly Line[]) => ({
  decision_id: decisionId,
  status: "accepted",
  version: newestVersion(lines),
  closed_period: lines.some(({ at }) => Date.now() >= lockedFrom(dayOf(at))),
});

interface Outcome {
  readonly decision_id: string | null;
  readonly status: string;
  readonly version: number | null;
}
type Answered = Outcome & { readonly items?: readonly Outcome[]; readonly results?: readonly Outcome[] };

interface Deciding {
  /** Which sales the request names. */
  readonly find: (seen: Seen) => Promise<readonly FoundSale[]>;
  /** An answer of one outcome for each, in their order: itself, its `items` or its `results`. */
  readonly decide: (work: Work, sales: readonly FoundSale[]) => Promise<object>;
  /** The partner to which the n-th is assigned, for whom only lines without a credit are taken. */
  readonly assignedTo?: (n: number) => number;
  /** All it asks for is that a review ends. */
  readonly isRelease?: boolean;
}

/**
 * A repeat of the request is answered how its decisions are by then. Throws Problem 409 where
 * another decision about the one sale came first.
 */
export const decideReply = async (
  { pool }: DecisionPorts,
  { read, write }: Pick<Ask, "read" | "write">,
  { find, decide, assignedTo, isRelease = false }: Deciding,
): Promise<Reply> => {
  let sales: readonly FoundSale[] | undefined;
  const { status, text } = await write(async (work) => {
    const found = await find(work);
    const body = await decide(work, found);
    sales = found;
    return { body };
  });
  const body = JSON.parse(text!) as Answered;
  const outcomes = body.items ?? body.results ?? [body];
  const ids = outcomes.flatMap((one) => (one.status === "accepted" ? [one.decision_id!] : []));
  if (ids.length === 0) return { status: status!, body };
  const settled = await whenSettled(pool, [...new Set(ids)]).catch(decisionsAway);
  if (isRelease && ids.every((id) => settled.get(id)?.hasChanged === false)) throw noReview();
  const named = sales ?? (await read((tx, scope) => find({ tx, scope })));
  const now = await linesNow(
    pool,
    named.map((sale) => (typeof sale === "object" ? sale : undefined)),
  );
  const shown = outcomes.map((one, n) => {
    const mine = one.decision_id === null ? undefined : settled.get(one.decision_id);
    if (one.status !== "accepted" || mine === undefined) return one;
    const lines = now[n]!;
    const version = lines.length === 0 ? one.version : newestVersion(lines);
    if (assignedTo === undefined || !isOvertaken(mine, assignedTo(n), lines))
      return { ...one, status: "applied", version };
    if (body.results === undefined) throw alreadyCredited();
    return { ...one, status: "rejected", code: "already_credited", version };
  });
  if (body.items !== undefined) return { status: status!, body: { items: shown } };
  return { status: status!, body: body.results === undefined ? shown[0]! : { results: shown } };
};

/** The lines of each sale, as they are now. */
const linesNow = async (
  pool: DecisionPorts["pool"],
  sales: readonly (Sale | undefined)[],
): Promise<readonly (readonly Line[])[]> => {
  const keys = [...new Set(sales.flatMap((sale) => (sale === undefined ? [] : [memoryKeyOf(sale)])))];
  const orders = await transaction(pool, null, (tx) => rememberedOrders(tx, keys), { isReadOnly: true }).catch(
    decisionsAway,
  );
  return sales.map((sale) =>
    sale === undefined ? [] : linesOf(sale.subject, orders.get(memoryKeyOf(sale))?.lines ?? []),
  );
};
