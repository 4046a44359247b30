// A partner that was invited works from now on.
import type { ActivatePartner } from "../../access/invitations/accept.ts";
import { changeReference } from "../reference/change.ts";

/** In the transaction that accepts the invitation. */
export const activatePartner: ActivatePartner = async (work, partner_id) => {
  await changeReference(work, { partners: [{ partner_id, status: "active" }] });
};
