// The identity edges that an event proves, as rows.
import type { Credit, EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { EdgeRow } from "./table.ts";

/**
 * One row an edge; none for nearly every event. A click id counts when attribute has found its MAC
 * good (it then says when the click was): ids that were made up link no devices.
 */
export const edgeRows = ({ at, data: { event, enrichment, credit } }: Recorded<EventAttributed>): readonly EdgeRow[] =>
  enrichment.edges.flatMap(({ kind, identifier, method, confidence, expires_at }) =>
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
        },
  );

/** Of a sale that was won through identity the time is that of another device's click. */
const hasGoodClick = ({ clicked_at, method }: Credit): boolean => clicked_at !== null && method !== "identity";
