// Contracts that a launch saves: new ones, or new versions of contracts with the same keys.
import type { AuditEntry } from "../../base/audit/audit.ts";
import type { Work } from "../../base/work.ts";
import { refuseLocked } from "../budgets/open-month.ts";
import { type SavedTerm, savedTerms } from "../contracts/contract-reads.ts";
import { refuseApproved } from "../contracts/fixed-days.ts";
import type { ContractTerms } from "../contracts/save.ts";
import { namedPartners, refuseArchived } from "../partners/named-partners.ts";

/** The terms of a contract; the launch knows the client. */
export type Commission = Omit<ContractTerms, "client_id" | "partner_id"> & {
  readonly partner_id: number;
  readonly segment: string | null;
  readonly event_type: string;
  readonly effective_from: string;
  readonly effective_to: string | null;
};
export interface LaunchContract {
  readonly terms: Commission & { readonly client_id: number };
  /** The saved contract with this key; undefined: the contract is new. */
  readonly before: SavedTerm | undefined;
}

/**
 * Throws RefusalError: invalid `partner_not_of_client`, `partner_archived`, `month_closed` if the
 * first day is in a locked month, and `month_approved`.
 */
export const contractsFor = async (
  work: Work,
  client_id: number,
  commissions: readonly Commission[],
): Promise<readonly LaunchContract[]> => {
  const named = commissions.map(({ partner_id: id }, n) => ({ id, path: `/commissions/${n}/partner_id` }));
  refuseArchived(await namedPartners(work, client_id, named), named);
  const all = commissions.map((commission) => ({ ...commission, client_id }));
  const saved = await savedTerms(work.tx, all);
  const contracts = all.map((terms, n) => ({ terms, before: saved[n] }));
  for (const [n, contract] of contracts.entries()) await refuseFixedDays(work, contract, `/commissions/${n}`);
  return contracts;
};

/** Checks the days of the contract, and those that it loses if it ends earlier than before. */
const refuseFixedDays = async (work: Work, { terms, before }: LaunchContract, place: string): Promise<void> => {
  const { effective_from: from, effective_to: to } = terms;
  refuseLocked(from, `${place}/effective_from`, work.now);
  await refuseApproved(work, terms, { from, to }, `${place}/effective_from`);
  if (before?.status !== "active" || to === null) return;
  if (before.effective_to === null || before.effective_to > to)
    await refuseApproved(work, terms, { from: to, to: before.effective_to }, `${place}/effective_to`);
};

/** Rows of the audit with the ids that the contracts got. */
export const auditedAs = (contracts: readonly LaunchContract[], ids: readonly number[]): readonly AuditEntry[] =>
  contracts.map(({ terms, before }, n) => ({
    action: before === undefined ? "contract.created" : "contract.versioned",
    ...{ client_id: terms.client_id, entity: `contract:${ids[n]}`, before, after: terms },
  }));
