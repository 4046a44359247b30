// Finds the click of the same person on another device. The result is a hint: read once across
// keys, then stored with the event.

import type { ReferenceAt } from "../../domain/reference/reference.ts";
import type { EventScored } from "../../schemas/generated.ts";
import type { Recorded, UnixMs, View } from "../../stream/flow.ts";
import { claimKindOf } from "./claims.ts";

export interface IdentityClickAsked {
  readonly client_id: number;
  readonly event_id: string;
  readonly at: UnixMs;
  readonly did: string;
  readonly person: string;
}

export interface IdentityClicks {
  /**
   * One bulk look-up for a batch. Returns, by event id, the newest earlier click id on another
   * device of the same person. The first answer is kept for 8 days (law R14).
   */
  readonly lookUp: (asked: readonly IdentityClickAsked[]) => Promise<ReadonlyMap<string, string>>;
}
export const identityClicks: View<IdentityClicks> = { view: "identity-clicks" };

/**
 * Returns the look-up for an event. Null unless the event is a claim of a known person and the
 * client has enabled the feature (docs/design/contracts.md, "Credit").
 */
export const identityClickAskedBy = (
  input: Recorded<EventScored>,
  reference: ReferenceAt,
): IdentityClickAsked | null => {
  const { event, enrichment } = input.data;
  if (enrichment.person === null || reference.client(event.client_id)?.identity_link !== true) return null;
  if (claimKindOf(event, reference) !== "conversion") return null;
  return {
    client_id: event.client_id,
    event_id: event.event_id,
    at: input.at,
    did: event.did,
    person: enrichment.person,
  };
};
