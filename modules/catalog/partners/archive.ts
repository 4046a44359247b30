// Archives a partner: ends its upload token and open invitations, and switches its links off. Its
// balance is still paid.
import { dayOf } from "../../../domain/calendar.ts";
import { revokePendingOf } from "../../access/invitations/invitations.ts";
import { revokeUploadToken } from "../../access/users/partner-access.ts";
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { endedByLeaving } from "../contracts/contract-reads.ts";
import { changeReference } from "../reference/change.ts";
import { entityOf, onlyOf, openPartner } from "./open-partner.ts";

/**
 * Does nothing if it is archived already. Throws RefusalError: missing, `partner_left`,
 * `version_conflict`.
 */
export const archivePartner = async (
  work: Work,
  { partner_id, version }: { readonly partner_id: number; readonly version: number | undefined },
): Promise<void> => {
  const { state } = await openPartner(work, partner_id, []);
  checkVersion(version, state.version);
  if (state.status === "archived") return;
  const { links } = await endedByLeaving(work.tx, partner_id, state.known_to, dayOf(work.now));
  const revoked = await revokeUploadToken(work.tx, partner_id);
  const revoked_invitations = await revokePendingOf(work.tx, { partner_id });
  await changeReference(work, {
    partners: [{ partner_id, status: "archived" }],
    links: links.map((link_id) => ({ link_id, status: "archived" as const })),
  });
  const before = { status: state.status };
  const after = { status: "archived", revoked, revoked_invitations, links };
  const client_id = onlyOf(state.known_to);
  await work.audit({ action: "partner.archived", client_id, entity: entityOf(partner_id), before, after });
};
