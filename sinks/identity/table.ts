// The table of identity edges: which device showed which identifier, when first, when last, and
// until when that holds.
import { computed, int, nullable, text, time, uuid, type WrittenRow } from "../../infra/postgres/columns.ts";
import { postgresTable } from "../stores/postgres.ts";
import { statementsOf } from "./statements.ts";

const shared = {
  client_id: int,
  /** Keyed hashes both. */
  did: text,
  identifier: text,
  kind: text,
  method: text,
  confidence: int,
  expires_at: time,
  /** When a decision took the identifier from the device; null: it holds. */
  unlinked_at: nullable(time),
};
/** What one event shows of an edge. */
const sightColumns = { ...shared, event_id: uuid, at: time };
export type IdentityLinkRow = WrittenRow<typeof sightColumns>;

const declared = {
  name: "identity_edges",
  key: ["client_id", "did", "kind", "identifier"],
  isBesideFigures: true,
  columns: {
    ...shared,
    evidence_event_id: computed(uuid, "event_id"),
    first_seen: computed(time, "to_timestamp(at / 1000.0)"),
    last_seen: computed(time, "to_timestamp(max(at) over edge / 1000.0)"),
    expires_at: computed(time, "to_timestamp(max(expires_at) over edge / 1000.0)"),
    unlinked_at: computed(nullable(time), "to_timestamp(max(unlinked_at) over edge / 1000.0)"),
  },
} as const;

/** Of one edge the earliest evidence and the latest sight stay, in whatever order they come. */
export const identityEdges = postgresTable<IdentityLinkRow>(declared, statementsOf(declared, sightColumns));
