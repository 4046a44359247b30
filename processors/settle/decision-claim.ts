// processors/settle/decision-claim.ts - a decision as a claim: under the key of the order it is about, with the event it is about.
import type { Claim, Decision, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import { claimKindOf, orderKeyOf } from "../attribute/claims.ts";
import type { ReferenceAt } from "../reference.ts";

/** Every line of an order; the order need not have been heard of. */
export const decisionOnOrder = (clientId: number, orderId: string, said: Omit<Decision, "scope">): Claim => ({
  client_id: clientId,
  order_key: `o:${orderId}`,
  kind: "decision",
  attributed: blank(clientId, orderId, said),
  decision: { ...said, scope: "order" },
});

/** The line that the event made, or is a copy of; or the event itself, when it is no claim. `reference`: as it was at event time. */
export const decisionOnEvent = (attributed: EventAttributed, reference: ReferenceAt, said: Omit<Decision, "scope">): Claim => ({
  client_id: attributed.event.client_id,
  order_key: orderKeyOf(attributed.event),
  kind: "decision",
  attributed,
  decision: { ...said, scope: claimKindOf(attributed.event, reference) === "conversion" ? "line" : "event" },
});

/** Claims carry an event. A decision about a whole order is one of its own: it is never stored, only its key and its time are read. */
const blank = (clientId: number, orderId: string, { decision_id, at }: Omit<Decision, "scope">): EventAttributed => {
  const event: EventReceived = {
    event_id: decision_id,
    sender_event_id: null,
    client_id: clientId,
    did: "",
    t: "decision",
    custom_name: null,
    ts: at,
    source: "decision",
    client_side: false,
    url: null,
    ref: null,
    ip: null,
    ua: null,
    ip_source: null,
    ua_source: null,
    sid: null,
    click_id: null,
    consent: 0,
    order_id: orderId,
    product_id: null,
    product_line: null,
    quantity: null,
    value_minor: null,
    currency: null,
    partner_ref: null,
    dedup_key: null,
    lead_key: null,
    sale_hash: null,
    import_id: null,
    props: "{}",
    warnings: [],
    batch_id: null,
  };
  return {
    event,
    enrichment: { country: null, device: "unknown", browser: null, os: null, is_bot: false, consent: 0, geo_built: null, errors: [] },
    fraud: { score: 0, band: "ok", reasons: [] },
    credit: {
      status: "unattributed",
      method: null,
      reason: null,
      partner_id: null,
      campaign_id: null,
      link_id: null,
      rule_id: null,
      rule_version: null,
      clicked_at: null,
      window_days: null,
      candidates: [],
      reference_as_of: null,
    },
    version: 1,
    merged_into: null,
  };
};
