// What makes two messages about a lead one lead, so that the browser's copy and the signed push
// meet; and what a pushed lead is called.
import { prefixed, uuidOf } from "./ids.ts";

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
  return lead.clientLeadId === null ? null : leadSubject(lead.clientLeadId);
};

/** What the client's own id of a lead is, where the id itself must not stand: a UUID. */
export const leadSubject = (clientLeadId: string): string => uuidOf("lead", clientLeadId);

/**
 * `led_` and 32 digits: of one client's own id always the same, so that a second push meets the
 * first. `subject` is what `leadSubject` makes.
 */
export const leadIdOf = (clientId: number, subject: string): string =>
  prefixed("led", uuidOf("led", clientId, subject));
