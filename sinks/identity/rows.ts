// Turns the identity links that an event proves into rows.
import { eventTimeOf } from "../../domain/money-time.ts";
import { unlinkedBy } from "../../domain/personal/unlink.ts";
import type { Credit, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import type { IdentityLinkRow } from "./table.ts";

/**
 * One row for each link; nearly every event has none. A click id counts only if attribute verified
 * its MAC (then the credit has the time of the click), so invented ids link no devices.
 */
export const identityLinkRows = (recorded: Recorded<EventAttributed>): readonly IdentityLinkRow[] => {
  const { event, enrichment, credit } = recorded.data;
  const at = eventTimeOf(recorded);
  const unlink = unlinkedBy(event);
  if (unlink !== null) return [unlinkedRow(event, unlink, at)];
  const { edges } = enrichment;
  if (edges.length === 0) return none;
  return edges.flatMap(({ kind, identifier, method, confidence, expires_at }) =>
    kind === "click" && !hasGoodClick(credit)
      ? []
      : {
          client_id: event.client_id,
          did: event.did,
          identifier,
          kind,
          method,
          confidence,
          event_id: event.event_id,
          at,
          expires_at,
          unlinked_at: null,
        },
  );
};

const none: readonly IdentityLinkRow[] = [];

const KEPT_MS = 90 * 86_400_000;

/** The link may have expired before. Then the decision is all that is known about it. */
const unlinkedRow = (
  { client_id, did, event_id }: EventReceived,
  { kind, identifier }: NonNullable<ReturnType<typeof unlinkedBy>>,
  at: UnixMs,
): IdentityLinkRow => ({
  ...{ client_id, did, kind, identifier, event_id, at },
  ...{ method: "unlinked_by_decision", confidence: 1, expires_at: at + KEPT_MS, unlinked_at: at },
});

/** If a sale was won through identity, the time is that of another device's click. */
const hasGoodClick = ({ clicked_at, method }: Credit): boolean => clicked_at !== null && method !== "identity";
