// The statements that join what was seen of an identity edge with what is known of it, and keep the
// edges of one identifier and of one device bounded.
import { type Columns, type DeclaredTable, givenTexts, listOf, storedFrom } from "../../infra/postgres/columns.ts";
import type { Statement } from "../stores/postgres.ts";

/** Whether the given evidence is older; of two events at one moment the lower id counts. */
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
 * More devices than any person has; what so many show (the phone of a call centre, a fingerprint of
 * a common phone) says of no one who they are. Of a device, more sessions than a visitor has.
 */
export const MOST_EDGES = 1_000;

/**
 * Ends what is more than `MOST_EDGES` of each group that the given rows touch. The first ones stay,
 * by when they were first seen: the same ones in whatever order rows come, so a replay changes
 * nothing.
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

export const statementsOf = (edges: DeclaredTable, sight: Columns): readonly Statement<unknown>[] => [
  { text: joinSights(edges, sight), columns: sight },
  { text: endOverfull(sight, ["client_id", "kind", "identifier"], "did"), columns: sight },
  { text: endOverfull(sight, ["client_id", "did", "kind"], "identifier"), columns: sight },
];
