// What is not known of an event: of one that no sender sent, and what stages found out about one
// that none of them has looked at.
import type { Enrichment, EventReceived, Fraud } from "../schemas/generated.ts";
import { emptyEnrichment, emptyEventReceived, emptyFraud } from "../schemas/generated-fields.ts";
import { PERSONAL_FORM } from "./personal/personal-form.ts";

export const nothingFound: { readonly enrichment: Enrichment; readonly fraud: Fraud } = {
  enrichment: emptyEnrichment,
  fraud: emptyFraud,
};

/** An event that no sender sent; its source is `decision`, which no edge writes. */
export const blankEvent = (
  known: Pick<EventReceived, "event_id" | "client_id" | "t" | "ts"> & Partial<EventReceived>,
): EventReceived => ({ ...emptyEventReceived, source: "decision", personal_form: PERSONAL_FORM, ...known });
