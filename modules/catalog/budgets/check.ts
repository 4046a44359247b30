// Checks budgets: an amount in the client's currency, a segment of the client, and a month that is
// still open.
import { toMinor } from "../../../domain/money.ts";
import { invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { readSegments } from "../clients/client-reads.ts";
import type { BudgetAmount, BudgetKey } from "./budgets.ts";
import { refuseFarAhead, refuseLocked } from "./open-month.ts";
import { firstDayOf } from "./pace.ts";

export interface BudgetInput {
  readonly year: number;
  readonly month: number;
  /** A decimal in the client's currency. */
  readonly amount: string;
  /** Null: all segments. */
  readonly segment: string | null;
  /** Undefined: keeps the stored note. */
  readonly note?: string | null | undefined;
  /** Undefined: keeps the stored value, which is "alert" at first. */
  readonly on_overspend?: "alert" | "stop" | undefined;
}

/** Returns the amount in minor units. Throws RefusalError: invalid `invalid_value`. */
export const amountIn = (currency: string, text: string, path: string): bigint => {
  const read = toMinor(text, currency);
  if (read.kind !== "amount") throw invalid(path, "invalid_value", `${read.why} (${currency})`);
  return read.minor;
};

export const segmentCodes = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  clientId: number,
): Promise<ReadonlySet<string>> => new Set((await readSegments(tx, clientId, scope.clients)).map(({ code }) => code));

/** Null stands for all segments. Throws RefusalError: invalid `unknown`. */
export const refuseUnknown = (segments: ReadonlySet<string>, segment: string | null, path: string): void => {
  if (segment !== null && !segments.has(segment)) throw invalid(path, "unknown", "the client has no such segment");
};

/** A budget that passed the checks. */
export interface CheckedBudget {
  readonly key: BudgetKey;
  readonly amount: BudgetAmount;
}

/**
 * `placeOf` returns the place of a budget in the input. Throws RefusalError: invalid
 * `invalid_value`, `unknown` and `duplicate_item`, and `month_closed` if nothing else is wrong.
 */
export const checkBudgets = async (
  { tx, scope, now }: Work,
  client: { readonly client_id: number; readonly currency: string },
  budgets: readonly BudgetInput[],
  placeOf: (n: number) => string,
): Promise<readonly CheckedBudget[]> => {
  if (budgets.length === 0) return [];
  const { client_id, currency } = client;
  const segments = await segmentCodes({ tx, scope }, client_id);
  const seen = new Set<string>();
  const checked = budgets.map(({ year, month, amount, segment, note, on_overspend }, n) => {
    const path = placeOf(n);
    const minor = amountIn(currency, amount, `${path}/amount`);
    if (minor <= 0n) throw invalid(`${path}/amount`, "invalid_value", "give more than zero");
    refuseUnknown(segments, segment, `${path}/segment`);
    refuseFarAhead({ year, month }, `${path}/month`, now);
    const name = `${year}-${month}:${segment}`;
    if (seen.has(name)) throw invalid(path, "duplicate_item", "give each budget once");
    seen.add(name);
    return {
      key: { client_id, year, month, segment },
      amount: { amount_minor: minor, currency, note, on_overspend },
    };
  });
  for (const [n, { key }] of checked.entries()) refuseLocked(firstDayOf(key), `${placeOf(n)}/month`, now);
  return checked;
};
