// Makes an invited partner active.
import type { ActivatePartner } from "../../access/invitations/accept.ts";
import { changeReference } from "../reference/change.ts";

/** Runs in the transaction that accepts the invitation. */
export const activatePartner: ActivatePartner = async (work, partner_id) => {
  await changeReference(work, { partners: [{ partner_id, status: "active" }] });
};
