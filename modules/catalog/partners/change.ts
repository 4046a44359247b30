// Changes a partner. When it leaves a client, its links there are switched off and its contracts
// end.
import { dayOf } from "../../../domain/calendar.ts";
import { askingOf } from "../../access/scope.ts";
import { archived, needWholePartner } from "../../access/standing.ts";
import { mergePatch } from "../../base/merge-patch.ts";
import { checkVersion, conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { namedClients } from "../clients/open-client.ts";
import { endedByLeaving } from "../contracts/contract-reads.ts";
import { changeReference } from "../reference/change.ts";
import { entityOf, type OpenPartner, onlyOf, openPartner } from "./open-partner.ts";
import { PARTNER_CONFLICTS, type PayoutInput, payoutOf, refuseTaken } from "./partner-fields.ts";
import { hasNoBalance, type PartnerState } from "./partner-reads.ts";

interface PartnerPatch {
  readonly name?: string;
  readonly email?: string;
  readonly status?: "invited" | "active" | "paused";
  readonly client_ids?: readonly number[];
  readonly payout?: PayoutInput;
  readonly referral_code?: string;
}
export interface PartnerChange {
  readonly partner_id: number;
  readonly patch: PartnerPatch;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}

/** The fields that are compared to detect a change. */
const SETTINGS = ["name", "email", "status", "client_ids", "payout", "referral_code"];
/** Roles that may restore an archived partner. */
const MAY_RESTORE = ["admin", "operator"];

/**
 * Clients that the caller may not see stay; all other fields act at every client of the partner.
 * Throws RefusalError: missing, `partner_left`, `partner_archived`, `version_conflict`,
 * `email_in_use`, `referral_code_taken`, `currency_in_use`, forbidden `shared_partner`, unknown or
 * archived clients.
 */
export const changePartner = async (work: Work, { partner_id, patch, version }: PartnerChange): Promise<void> => {
  const { state, shown: before } = await openPartner(work, partner_id, SETTINGS);
  if (state.status === "archived" && (patch.status === undefined || !MAY_RESTORE.includes(work.act.role)))
    throw archived("partner");
  const { client_ids, ...fields } = patch;
  if (Object.keys(fields).length > 0) needWholePartner(work.scope, state.known_to);
  checkVersion(version, state.version);
  await checkAddress(work, { state, shown: before }, patch);
  await checkPayout(work, { state, shown: before }, patch);
  if (Object.keys(patch).length === 0) return;
  const clients = client_ids === undefined ? undefined : await clientsAfter(work, state, client_ids);
  const left = clients === undefined ? [] : state.client_ids.filter((id) => !clients.includes(id));
  await endAt(work, partner_id, left);
  const changed = { ...fields, ...(clients && { client_ids: [...clients] }) };
  const changes = { partners: [{ partner_id, ...changed } as never] };
  await changeReference(work, changes, { conflicts: PARTNER_CONFLICTS });
  const after = mergePatch(before, patch);
  const client_id = onlyOf(state.known_to);
  await work.audit({ action: "partner.updated", client_id, entity: entityOf(partner_id), before, after });
};

/** The address of a restored partner must be free too. */
const checkAddress = async ({ tx }: Work, { state, shown }: OpenPartner, patch: PartnerPatch): Promise<void> => {
  const isBack = state.status === "archived" && patch.status !== undefined;
  const isOther = patch.email !== undefined && patch.email !== shown.email;
  if (isOther || isBack) await refuseTaken(tx, [{ email: patch.email ?? shown.email, place: "" }], state.partner_id);
};

/** The payout currency cannot change while something is owed in it. */
const checkPayout = async ({ tx, scope }: Work, { state, shown }: OpenPartner, patch: PartnerPatch): Promise<void> => {
  if (patch.payout === undefined) return;
  const given = Object.entries(patch.payout).filter(([, value]) => value !== undefined);
  const payout = payoutOf({ ...shown.payout, ...Object.fromEntries(given) });
  if (payout.currency === shown.payout.currency) return;
  const { partner_id, known_to } = state;
  if (!(await askingOf(tx, scope, known_to, () => hasNoBalance(tx, partner_id, known_to))))
    throw conflict("currency_in_use", "the balance is not zero in the currency of before", {
      path: "/payout/currency",
    });
};

/**
 * The clients of the partner after the change: the given ones, and those that the caller may not
 * see, which stay.
 */
const clientsAfter = async (
  work: Work,
  { client_ids }: PartnerState,
  given: readonly number[],
): Promise<readonly number[]> => {
  const { clients } = work.scope;
  const places = given.map((id, n) => ({ id, path: `/client_ids/${n}` }));
  await namedClients(
    work,
    places.filter(({ id }) => !(clients.includes(id) && client_ids.includes(id))),
  );
  return [...new Set([...client_ids.filter((id) => !clients.includes(id)), ...given])];
};

/**
 * When a partner leaves a client, links are switched off and contracts end today; earlier sales are
 * still paid.
 */
const endAt = async (work: Work, partnerId: number, clients: readonly number[]): Promise<void> => {
  if (clients.length === 0) return;
  const today = dayOf(work.now);
  const { links, contracts } = await endedByLeaving(work.tx, partnerId, clients, today);
  if (links.length + contracts.length === 0) return;
  await changeReference(work, {
    links: links.map((link_id) => ({ link_id, status: "archived" as const })),
    contracts: contracts.map(({ contract_id, hasBegun }) =>
      hasBegun ? { contract_id, effective_to: today } : { contract_id, status: "archived" as const },
    ),
  });
};
