// Turns a signed lead into an event without personal data, plus the hashes that find a person's
// leads. The hashes are stored separately.
import { leadIdOf, leadSubject, meetingId } from "../../../domain/ids.ts";
import { hashedForm } from "../../../domain/personal/across.ts";
import { personalHashes } from "../../../domain/personal/personal-data.ts";
import type { EventReceived } from "../../../schemas/generated.ts";
import type { Refusal, UnixMs } from "../../../stream/flow.ts";
import { admitEvent } from "../event.ts";
import { type RequestFacts, requestTerms } from "../request-terms.ts";

/**
 * A lead as the client's server sent it, with the types of its fields checked. Null and "" count as
 * absent.
 */
export interface SentLead {
  readonly client_lead_id: string;
  readonly email?: string | null | undefined;
  readonly phone?: string | null | undefined;
  readonly product?: string | null | undefined;
  readonly stage?: string | null | undefined;
  readonly lead_value?: number | string | null | undefined;
  readonly currency?: string | null | undefined;
  readonly svc_click_id?: string | null | undefined;
  /** An RFC 3339 time. */
  readonly event_time?: string | null | undefined;
}

/** Keyed hashes of the lead's own id and of the person it names. */
interface LeadSubjects {
  readonly lead: string;
  /** The lead of the id as it was sent, where it may be stored since before. Null if the same. */
  readonly lead_before: string | null;
  readonly email: string | null;
  readonly phone: string | null;
}
export type AdmittedLead =
  | { readonly kind: "accepted"; readonly event: EventReceived; readonly subjects: LeadSubjects }
  | { readonly kind: "refused"; readonly refusal: Refusal };

/**
 * Also hashes texts that are not valid addresses, because an erasure request names them as they
 * were written.
 */
const subjectOf = (
  kind: "email" | "phone",
  given: string | null | undefined,
  { identify }: Pick<RequestFacts, "identify">,
): string | null => (given?.trim() ? personalHashes(kind, given, identify)[0]! : null);

/** All leads with one placeholder would be one lead, of which the first stands. */
const placeholderId: Refusal = {
  code: "bad_lead_id",
  field: "client_lead_id",
  message: "is a placeholder: give the client's own id of the lead",
  retryable: false,
};

/** Leaves out absent props: null, undefined and "". */
const present = (props: Readonly<Record<string, unknown>>): object =>
  Object.fromEntries(
    Object.entries(props).filter(([, value]) => value !== undefined && value !== null && value !== ""),
  );

/**
 * Admits a lead. Pure: the same lead always gives the same event. A refusal names the field as the
 * sender wrote it. The device id of a lead is derived from its person where known, so several leads
 * of one person do not look like many devices behind one click.
 */
export const admitLead = (lead: SentLead, receivedAt: UnixMs, facts: RequestFacts): AdmittedLead => {
  const { client_lead_id, svc_click_id, event_time, product, stage, lead_value, currency } = lead;
  const leadId = meetingId(client_lead_id);
  if (leadId === null) return { kind: "refused", refusal: placeholderId };
  const subject = leadSubject(leadId);
  const id = leadIdOf(facts.clientId, subject);
  const email = hashedForm("email", lead.email);
  const phone = hashedForm("phone", lead.phone);
  const arrival = { receivedAt, sender: String(facts.clientId), address: null, header: () => undefined };
  const texts = { mayBeBroken: false, mayHoldEmail: true };
  const terms = requestTerms({ texts, source: "lead", isClientSide: false, batchId: null }, arrival, facts);
  const given = {
    event_id: id,
    t: "lead_submit",
    ts: event_time ? Date.parse(event_time) : receivedAt,
    cid: facts.clientId,
    did: `lead:${email ?? phone ?? subject}`,
    svc_click_id,
    props: present({ client_lead_id, email, phone, product, stage, lead_value, currency }),
  };
  const admitted = admitEvent(given, terms);
  if (admitted.kind === "refused") {
    const { field } = admitted.refusal;
    const own = field === "ts" ? "event_time" : (field?.replace(/^props\./, "") ?? null);
    return { kind: "refused", refusal: { ...admitted.refusal, field: own } };
  }
  const before = leadIdOf(facts.clientId, leadSubject(client_lead_id));
  const leads = { lead: id, lead_before: before === id ? null : before };
  return {
    kind: "accepted",
    event: admitted.data,
    subjects: { ...leads, email: subjectOf("email", lead.email, facts), phone: subjectOf("phone", lead.phone, facts) },
  };
};
