// The identity edges that an event proves, as rows.
import { unlinkedBy } from "../../domain/personal/unlink.ts";
import type { Credit, EventAttributed, EventReceived } from "../../schemas/generated.ts";
import type { Recorded, UnixMs } from "../../stream/flow.ts";
import type { IdentityLinkRow } from "./table.ts";

/**
 * One row an edge; none for nearly every event. A click id counts when attribute has found its MAC
 * good (it then says when the click was): ids that were made up link no devices.
 */
export const identityLinkRows = ({
  at,
  data: { event, enrichment, credit },
}: Recorded<EventAttributed>): readonly IdentityLinkRow[] => {
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

/** The edge may have been ended before: then the decision is all that is known of it. */
const unlinkedRow = (
  { client_id, did, event_id }: EventReceived,
  { kind, identifier }: NonNullable<ReturnType<typeof unlinkedBy>>,
  at: UnixMs,
): IdentityLinkRow => ({
  ...{ client_id, did, kind, identifier, event_id, at },
  ...{ method: "unlinked_by_decision", confidence: 1, expires_at: at + KEPT_MS, unlinked_at: at },
});

/** Of a sale that was won through identity the time is that of another device's click. */
const hasGoodClick = ({ clicked_at, method }: Credit): boolean => clicked_at !== null && method !== "identity";
