// The identity edges that an event proves, as rows.
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { EdgeRow } from "./table.ts";

/** One row an edge; none for nearly every event. */
export const edgeRows = ({ at, data: { event, enrichment } }: Recorded<EventAttributed>): readonly EdgeRow[] =>
  enrichment.edges.map(({ kind, identifier, method, confidence, expires_at }) => ({
    client_id: event.client_id,
    did: event.did,
    identifier,
    kind,
    method,
    confidence,
    event_id: event.event_id,
    at,
    expires_at,
  }));
