// A partner that was invited works from now on.
import type { ActivatePartner } from "../../access/invitations/accept.ts";
import { writeReferenceWithin } from "../reference/writer.ts";

/**
 * In the transaction that accepts the invitation, as its last step: what follows a change of
 * reference data is short.
 */
export const activatePartner: ActivatePartner = async (tx, { partner_id, clients, actor }) => {
  await writeReferenceWithin(tx, actor, { partners: [{ partner_id, status: "active" }] }, { clients });
};
