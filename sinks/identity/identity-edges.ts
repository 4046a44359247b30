// The identity edges that events prove: which device showed which identifier, when, and until when
// that holds.
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded, Table, UnixMs } from "../../stream/flow.ts";

export interface EdgeRow {
  readonly client_id: number;
  /** Keyed hashes both. */
  readonly did: string;
  readonly identifier: string;
  readonly kind: string;
  readonly method: string;
  readonly confidence: number;
  readonly event_id: string;
  readonly at: UnixMs;
  readonly expires_at: UnixMs;
}

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

/** Of one edge the earliest evidence and the latest sight stay, in whatever order they come. */
export const identityEdges: Table<EdgeRow> = {
  name: "identity_edges",
  store: "postgres",
  key: ["client_id", "did", "kind", "identifier"],
  tenantOf: (row) => row.client_id,
  write: (rows, write) => write("identity_edges", rows),
};
