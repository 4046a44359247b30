// What a plan must keep to: partners and segments of its client, each once, amounts of its
// currency, and contracts that pay what it says.
import { dayOf, monthsAfter } from "../../../domain/calendar.ts";
import { toMinor } from "../../../domain/money.ts";
import { Problem } from "../../../infra/http/problem.ts";
import { firstDayOf } from "../../../modules/catalog/budgets/pace.ts";
import { readSegments } from "../../../modules/catalog/clients/client-reads.ts";
import { percentRatesOn } from "../../../modules/catalog/contracts/rates.ts";
import type { Plan, PlanKey, PlanLine } from "../../../modules/catalog/planner/plans.ts";
import { MOST_MONTHS_AHEAD } from "../campaigns/budgets.ts";
import { checkPartners } from "../campaigns/checks.ts";
import { fault } from "../request/accept.ts";
import type { Work } from "../route.ts";

interface GivenLine {
  readonly partner_id: number;
  readonly segment: string | null;
  readonly budget: string;
  readonly target_conversions: number;
  readonly rate: string | null;
}

/** Throws Problem 400 for a month that is too far away. */
export const checkMonth = (key: PlanKey): void => {
  const latest = monthsAfter(`${dayOf(Date.now()).slice(0, 7)}-01`, MOST_MONTHS_AHEAD);
  if (firstDayOf(key) > latest) throw fault("/month", "invalid_value", `at most ${MOST_MONTHS_AHEAD} months ahead`);
};

/**
 * Lines that may be saved. Throws Problem 400 with the place of the fault, 409 `partner_archived`.
 */
export const checkLines = async (
  work: Work,
  { client_id, currency }: { readonly client_id: number; readonly currency: string },
  given: readonly GivenLine[],
): Promise<readonly PlanLine[]> => {
  const places = given.map(({ partner_id }, n) => [partner_id, `/lines/${n}/partner_id`] as const);
  const statuses = await checkPartners(work, client_id, places);
  const segments = new Set((await readSegments(work.tx, client_id, work.scope.clients)).map(({ code }) => code));
  const seen = new Set<string>();
  const lines = given.map(({ budget, ...line }, n) => {
    const pointer = `/lines/${n}`;
    const read = toMinor(budget, currency);
    if (read.kind !== "amount") throw fault(`${pointer}/budget`, "invalid_value", `${read.why} (${currency})`);
    if (read.minor < 0n) throw fault(`${pointer}/budget`, "invalid_value", "give zero or more");
    if (line.segment !== null && !segments.has(line.segment))
      throw fault(`${pointer}/segment`, "unknown", "the client has no such segment");
    const key = `${line.partner_id} ${line.segment ?? ""}`;
    if (seen.has(key)) throw fault(pointer, "duplicate_item", "give each partner and segment once");
    seen.add(key);
    return { ...line, budget_minor: read.minor };
  });
  const archived = places.filter(([id]) => statuses.get(id) === "archived");
  if (archived.length > 0) {
    const detail = "this partner is archived";
    const errors = archived.map(([, pointer]) => ({ pointer, code: "partner_archived", detail }));
    throw new Problem("conflict", detail, { code: "partner_archived", errors });
  }
  return lines;
};

/** Throws Problem 409: money has one source, the contract, and a plan must not say another rate. */
export const checkRates = async ({ tx }: Work, key: PlanKey, { lines }: Plan): Promise<void> => {
  const rated = lines.filter(({ rate }) => rate !== null);
  const partners = rated.map(({ partner_id }) => partner_id);
  const rateOf = await percentRatesOn(tx, key.client_id, partners, firstDayOf(key));
  const wrong = rated
    .map(({ partner_id, segment, rate }) => {
      return { partner_id, segment, rate, contract_rate: rateOf(partner_id, segment) };
    })
    .filter(({ rate, contract_rate }) => contract_rate === null || Number(rate) !== Number(contract_rate));
  if (wrong.length === 0) return;
  const detail = `${wrong.length} lines give another rate than the contract in force on the 1st`;
  throw new Problem("conflict", detail, { code: "rate_mismatch", members: { lines: wrong } });
};
