// What makes two messages about a lead one lead, so that the browser's copy and the signed push
// meet.
import type { UnixMs } from "../stream/flow.ts";
import { dayOf } from "./calendar.ts";
import { uuidOf } from "./ids.ts";

/**
 * The hashed e-mail with product and day (of the event, in America/Mexico_City) when an e-mail is
 * there, else the client's own lead id, else null:
 * then the event stands for itself. `emailHash` is the keyed hash (64 hex digits).
 */
export const leadKey = (lead: {
  readonly emailHash: string | null;
  readonly product: string | null;
  readonly at: UnixMs;
  readonly clientLeadId: string | null;
}): string | null => {
  if (lead.emailHash !== null) return uuidOf("email", lead.emailHash, lead.product ?? "", dayOf(lead.at));
  return lead.clientLeadId === null ? null : uuidOf("lead", lead.clientLeadId);
};
