// Tries a rule on history and formats the result for the response: matches and money as decimals.
// Writes nothing.
import type { Pool, PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { brokenBudgets, moneyRows } from "./books.ts";
import { type EvaluationPorts, evaluateRule } from "./evaluate.ts";
import { openSummary, periodsOf, type Sample } from "./summary.ts";
import type { TriedRule } from "./try-rule.ts";
import type { EventWindow } from "./window.ts";

/** After this time the results so far are returned, marked as truncated. */
const BOX_MS = 25_000;

export interface TrialPorts extends EvaluationPorts {
  readonly pool: Pool;
}

const shownSample = ({ value_minor, currency, ...sample }: Sample, ofClient: string) => ({
  ...sample,
  value: value_minor === null ? null : toDecimal(value_minor, currency ?? ofClient),
  currency: value_minor === null ? null : (currency ?? ofClient),
});

export interface AskedTrial {
  readonly rule: TriedRule;
  readonly window: EventWindow;
  /** False: what a backfill would book that recalculates nothing, which moves no money. */
  readonly recalculates: boolean;
}

/** Throws what its ports throw. */
export const tryOnHistory = async (ports: TrialPorts, { rule, window, recalculates }: AskedTrial) => {
  const { pool, now } = ports;
  const until = performance.now() + BOX_MS;
  const summary = openSummary();
  const { evaluated, truncated } = await evaluateRule(
    ports,
    { rule, window, recalculates, actor: "trial", reason: "tried on history" },
    async (page) => {
      summary.add(page);
      return performance.now() < until;
    },
  );
  const found = summary.result();
  const { client_id } = rule;
  return transaction(
    pool,
    [client_id],
    async (tx) => {
      const currency = await currencyIn(tx, client_id);
      return {
        ok: true as const,
        rule_version: rule.version,
        dry_run: true as const,
        ...{ from: window.first_day, to: window.last_day, evaluated, truncated },
        ...{ matched: found.matched, by_event_type: found.by_event_type, by_partner: found.by_partner },
        ...deltasIn(found.deltas, currency),
        affected_periods: periodsOf(found, now),
        samples: found.samples.map((sample) => shownSample(sample, currency)),
        job_id: null,
        money: await moneyRows(tx, client_id, found, now),
        budgets_breached: await brokenBudgets(tx, client_id, found, now),
        would_lose_to: found.lostTo,
      };
    },
    { isReadOnly: true },
  );
};

const currencyIn = async (tx: PoolClient, clientId: number): Promise<string> => {
  const { rows } = await tx.query<{ currency: string }>(sql`
    select currency from clients where client_id = ${clientId} order by version desc limit 1`);
  return rows[0]!.currency;
};
/** The currency of the client. */
export const currencyOf = (pool: Pool, clientId: number): Promise<string> =>
  transaction(pool, [clientId], (tx) => currencyIn(tx, clientId), { isReadOnly: true });

/** Returns the changes in the client's currency, and those in other currencies separately. */
export const deltasIn = (
  deltas: readonly { readonly currency: string; readonly amount_minor: bigint }[],
  currency: string,
) => {
  const sums = new Map<string, bigint>([[currency, 0n]]);
  for (const one of deltas) sums.set(one.currency, (sums.get(one.currency) ?? 0n) + one.amount_minor);
  const shown = [...sums].map(([code, minor]) => ({ currency: code, commission_delta: toDecimal(minor, code) }));
  return { ...shown[0]!, other_currencies: shown.slice(1) };
};
