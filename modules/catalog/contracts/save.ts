// Saves a contract: a new one, or the next version of the one with this key. Terms of a closed
// month, and of a month with an approved plan, cannot change.
import { dayOf } from "../../../domain/calendar.ts";
import { archived } from "../../access/standing.ts";
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { monthClosed } from "../budgets/open-month.ts";
import { namedClients } from "../clients/open-client.ts";
import { notOfClient } from "../partners/named-partners.ts";
import { openPartner } from "../partners/open-partner.ts";
import { changeReference } from "../reference/change.ts";
import type { ReferenceChanges } from "../reference/entities.ts";
import { closedMonthOf, daysChanged, fieldOf } from "./closed-month.ts";
import { type ContractKey, contractOf, type NotApplied, settledBefore } from "./contract-reads.ts";
import { refuseApproved } from "./fixed-days.ts";

export type ContractTerms = Omit<NonNullable<ReferenceChanges["contracts"]>[number], "contract_id" | "valid_from">;
export interface ContractInput {
  readonly key: ContractKey;
  /** The complete terms: fields that are left out are not kept. */
  readonly terms: ContractTerms & { readonly effective_to: string | null };
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}
export interface SavedContract {
  readonly id: number;
  readonly key: ContractKey;
  readonly isNew: boolean;
  /** Conversions in the contract's days that were settled before; they keep their earnings. */
  readonly notApplied: NotApplied;
}

/** The fields that are compared to detect a change, and that the audit keeps. */
const SETTINGS = [
  ...["id", "partner_id", "client_id", "segment", "event_type", "type", "rate", "amount", "tiers", "tier_mode"],
  ...["months", "per", "min", "max", "cap", "currency", "status", "effective_from", "effective_to", "version"],
];

/**
 * Throws RefusalError: missing, `partner_left`, `partner_archived`, unknown or archived client,
 * invalid `partner_not_of_client`, `version_conflict`, `month_closed`, `month_approved`, and
 * refusals of wrong terms.
 */
export const saveContract = async (work: Work, { key, terms, version }: ContractInput): Promise<SavedContract> => {
  const { tx, now } = work;
  const { partner_id, client_id } = key;
  const { state } = await openPartner(work, partner_id, []);
  const [client] = await namedClients(work, [{ id: client_id, path: "/client_id" }]);
  if (!state.client_ids.includes(client_id))
    throw notOfClient("/client_id", `partner ${partner_id} does not work for this client`);
  if (state.status === "archived") throw archived("partner");
  const before = await contractOf(tx, key, SETTINGS, dayOf(now));
  checkVersion(version, before?.version ?? 0);
  const notApplied = await settledBefore(tx, key, terms.effective_to, client!.currency);
  await changeReference(work, { contracts: [{ ...terms, ...key }] });
  const after = (await contractOf(tx, key, SETTINGS, dayOf(now)))!;
  await refuseFixedDays(work, key, before, after);
  const action = before === undefined ? "contract.created" : "contract.versioned";
  await work.audit({ action, client_id, entity: `contract:${after.id}`, before, after });
  return { id: after.id, key, isNew: before === undefined, notApplied };
};

type Row = Readonly<Record<string, any>>;

/** Money of a closed month does not change, nor do the rates of an approved plan. */
const refuseFixedDays = async (work: Work, key: ContractKey, before: Row | undefined, after: Row): Promise<void> => {
  const closed = closedMonthOf(before, after, work.now);
  if (closed !== null) throw monthClosed(`/${closed.field}`, closed.detail);
  const days = daysChanged(before, after);
  if (days !== undefined) await refuseApproved(work, key, days, `/${fieldOf(days.from, after)}`);
};
