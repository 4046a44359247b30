// The table of identity links: which device showed which identifier, when first, when last, and how
// long the link is valid. Its statements join sights with known links and limit their number.
import {
  type Columns,
  computed,
  type DeclaredTable,
  givenTexts,
  int,
  listOf,
  nullable,
  storedFrom,
  text,
  time,
  uuid,
  type WrittenRow,
} from "../../infra/postgres/columns.ts";
import { postgresTable, type Statement } from "../stores/postgres.ts";

/** True if the new evidence is older. Of two events at one moment, the lower id counts. */
const isEarlier = "(excluded.first_seen, excluded.evidence_event_id) < (kept.first_seen, kept.evidence_event_id)";

/** Keys are sorted, so that two writers wait for each other and never deadlock. */
const joinSights = ({ columns }: DeclaredTable, sight: Columns): string => `
insert into identity_edges as kept (${listOf(columns)})
select distinct on (client_id, did, kind, identifier) ${storedFrom(columns)}
from ${givenTexts(sight)}
window edge as (partition by client_id, did, kind, identifier)
order by client_id, did, kind, identifier, at, event_id
on conflict (client_id, did, kind, identifier) do update set
  method = case when ${isEarlier} then excluded.method else kept.method end,
  confidence = greatest(kept.confidence, excluded.confidence),
  evidence_event_id = case when ${isEarlier} then excluded.evidence_event_id else kept.evidence_event_id end,
  first_seen = least(kept.first_seen, excluded.first_seen),
  last_seen = greatest(kept.last_seen, excluded.last_seen),
  expires_at = greatest(kept.expires_at, excluded.expires_at),
  unlinked_at = greatest(kept.unlinked_at, excluded.unlinked_at)
where excluded.first_seen < kept.first_seen or excluded.last_seen > kept.last_seen
  or excluded.unlinked_at > coalesce(kept.unlinked_at, '-infinity')
  or (excluded.first_seen = kept.first_seen and excluded.evidence_event_id < kept.evidence_event_id)`;

/**
 * No person has more devices. An identifier that so many devices show (the phone of a call centre,
 * the fingerprint of a common phone) identifies no person. No device has more sessions either.
 */
export const MOST_EDGES = 1_000;

/**
 * Deletes the links above `MOST_EDGES` in each group that the rows touch. The earliest links stay,
 * by when they were first seen. These are the same ones whatever the order of rows, so a replay
 * changes nothing.
 */
const endOverfull = (sight: Columns, group: readonly string[], rest: "did" | "identifier"): string => `
with touched as (select distinct ${group.join(", ")} from ${givenTexts(sight)}),
full_groups as (
  select touched.*, last_kept.first_seen, last_kept.${rest} from touched cross join lateral (
    select first_seen, ${rest} from identity_edges
    where ${group.map((column) => `identity_edges.${column} = touched.${column}`).join(" and ")}
    order by first_seen, ${rest} offset ${MOST_EDGES - 1} limit 1) last_kept)
delete from identity_edges extra using full_groups
where ${group.map((column) => `extra.${column} = full_groups.${column}`).join(" and ")}
  and (extra.first_seen, extra.${rest}) > (full_groups.first_seen, full_groups.${rest})`;

const statementsOf = (edges: DeclaredTable, sight: Columns): readonly Statement<unknown>[] => [
  { text: joinSights(edges, sight), columns: sight },
  { text: endOverfull(sight, ["client_id", "kind", "identifier"], "did"), columns: sight },
  { text: endOverfull(sight, ["client_id", "did", "kind"], "identifier"), columns: sight },
];

const shared = {
  client_id: int,
  /** Both are keyed hashes. */
  did: text,
  identifier: text,
  kind: text,
  method: text,
  confidence: int,
  expires_at: time,
  /** When a decision removed the identifier from the device. Null while the link holds. */
  unlinked_at: nullable(time),
};
/** One sight: what a single event shows of a link. */
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

/** Each link keeps its earliest evidence and its latest sight, whatever the order of arrival. */
export const identityEdges = postgresTable<IdentityLinkRow>(declared, statementsOf(declared, sightColumns));
