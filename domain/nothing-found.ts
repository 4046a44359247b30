// Empty parts of an event: an event that no sender sent, and the results of stages that have not
// seen it. Do not edit: npm run generate.
import type { Enrichment, EventReceived, Fraud } from "../schemas/generated.ts";
import { PERSONAL_FORM } from "./personal/personal-form.ts";

export const nothingFound: { readonly enrichment: Enrichment; readonly fraud: Fraud } = {
  enrichment: {
    country: null,
    device: "unknown",
    browser: null,
    os: null,
    is_bot: false,
    consent: 0,
    geo_built: null,
    errors: [],
    region: null,
    city: null,
    asn: null,
    asn_class: "unknown",
    person: null,
    edges: [],
  },
  fraud: {
    score: 0,
    band: "ok",
    reasons: [],
    hints: null,
  },
};

/** An event without a sender. Its source is `decision`, which no edge writes. */
export const blankEvent = (
  known: Pick<EventReceived, "event_id" | "client_id" | "t" | "ts"> & Partial<EventReceived>,
): EventReceived => ({
  sender_event_id: null,
  did: "",
  custom_name: null,
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
  order_id: null,
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
  by_partner: null,
  across: [],
  source: "decision",
  personal_form: PERSONAL_FORM,
  ...known,
});
