// What makes two messages about a lead one lead, so that the browser's copy and the signed push
// meet.
import { uuidOf } from "./ids.ts";

/**
 * The hashed e-mail with the product when an e-mail is there, else the client's own lead id, else
 * null: then the event stands for itself. How far apart two of one key may lie, settle decides.
 * `emailHash` is the keyed hash (64 hex digits).
 */
export const leadKey = (lead: {
  readonly emailHash: string | null;
  readonly product: string | null;
  readonly clientLeadId: string | null;
}): string | null => {
  if (lead.emailHash !== null) return uuidOf("email", lead.emailHash, lead.product ?? "");
  return lead.clientLeadId === null ? null : uuidOf("lead", lead.clientLeadId);
};
