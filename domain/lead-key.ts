// The key by which two messages about one lead are recognised (the browser's copy and the signed
// push), and the id of a pushed lead.
import { prefixed, uuidOf } from "./ids.ts";

/**
 * The hashed e-mail address with the product, otherwise the client's own lead id, otherwise null;
 * then the event is a lead of its own. The settle stage decides how far apart in time two leads
 * with one key may be. `emailHash` is the keyed hash (64 hex digits).
 */
export const leadKey = (lead: {
  readonly emailHash: string | null;
  readonly product: string | null;
  readonly clientLeadId: string | null;
}): string | null => {
  if (lead.emailHash !== null) return uuidOf("email", lead.emailHash, lead.product ?? "");
  return lead.clientLeadId === null ? null : leadSubject(lead.clientLeadId);
};

/** A UUID that replaces the client's own lead id where the id itself must not appear. */
export const leadSubject = (clientLeadId: string): string => uuidOf("lead", clientLeadId);

/**
 * `led_` and 32 digits. The same lead of a client always has the same id, so a second push finds
 * the first. `subject` comes from `leadSubject`.
 */
export const leadIdOf = (clientId: number, subject: string): string =>
  prefixed("led", uuidOf("led", clientId, subject));
