// Checks a plan: partners and segments of its client, each once, amounts in its currency, and the
// rates of the contracts.
import { conflict, invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { amountIn, refuseUnknown, segmentCodes } from "../budgets/check.ts";
import { firstDayOf } from "../budgets/pace.ts";
import { percentRatesOn } from "../contracts/rates.ts";
import { namedPartners, refuseArchived } from "../partners/named-partners.ts";
import type { Plan, PlanKey, PlanLine } from "./plan.ts";

/** A line of the input; `budget` is a decimal in the client's currency. */
export type LineInput = Omit<PlanLine, "budget_minor"> & { readonly budget: string };

/**
 * Returns lines that passed the checks. Throws RefusalError: invalid `partner_not_of_client`,
 * `invalid_value`, `unknown` and `duplicate_item`, and `partner_archived`.
 */
export const checkLines = async (
  work: Work,
  { client_id, currency }: { readonly client_id: number; readonly currency: string },
  lines: readonly LineInput[],
): Promise<readonly PlanLine[]> => {
  const named = lines.map(({ partner_id: id }, n) => ({ id, path: `/lines/${n}/partner_id` }));
  const statuses = await namedPartners(work, client_id, named);
  const segments = await segmentCodes(work, client_id);
  const seen = new Set<string>();
  const checked = lines.map(({ budget, ...line }, n) => {
    const path = `/lines/${n}`;
    const budget_minor = amountIn(currency, budget, `${path}/budget`);
    if (budget_minor < 0n) throw invalid(`${path}/budget`, "invalid_value", "give zero or more");
    refuseUnknown(segments, line.segment, `${path}/segment`);
    const key = `${line.partner_id} ${line.segment ?? ""}`;
    if (seen.has(key)) throw invalid(path, "duplicate_item", "give each partner and segment once");
    seen.add(key);
    return { ...line, budget_minor };
  });
  refuseArchived(statuses, named);
  return checked;
};

/**
 * Only contracts decide rates, so a plan must not state a different one. Throws RefusalError
 * `rate_mismatch`.
 */
export const checkRates = async ({ tx }: Pick<Work, "tx">, key: PlanKey, { lines }: Plan): Promise<void> => {
  const rated = lines.filter(({ rate }) => rate !== null);
  const partners = rated.map(({ partner_id }) => partner_id);
  const rateOf = await percentRatesOn(tx, key.client_id, partners, firstDayOf(key));
  const wrong = rated
    .map(({ partner_id, segment, rate }) => ({ partner_id, segment, rate, contract_rate: rateOf(partner_id, segment) }))
    .filter(({ rate, contract_rate }) => contract_rate === null || Number(rate) !== Number(contract_rate));
  if (wrong.length === 0) return;
  const message = `${wrong.length} lines give another rate than the contract in force on the 1st`;
  throw conflict("rate_mismatch", message, { details: { lines: wrong } });
};
