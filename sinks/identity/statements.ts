// The statement that joins what was seen of an identity edge with what is known of it.
import { type Columns, type DeclaredTable, givenRows, listOf, storedFrom } from "../../infra/postgres/columns.ts";

/** Whether the given evidence is older; of two events at one moment the lower id counts. */
const isEarlier = "(excluded.first_seen, excluded.evidence_event_id) < (kept.first_seen, kept.evidence_event_id)";

/** Keys are sorted, so that two writers wait for each other and never deadlock. */
const joinSights = ({ columns }: DeclaredTable, sight: Columns): string => `
insert into identity_edges as kept (${listOf(columns)})
select distinct on (client_id, did, kind, identifier) ${storedFrom(columns)}
from ${givenRows(sight)}
window edge as (partition by client_id, did, kind, identifier)
order by client_id, did, kind, identifier, at, event_id
on conflict (client_id, did, kind, identifier) do update set
  method = case when ${isEarlier} then excluded.method else kept.method end,
  confidence = greatest(kept.confidence, excluded.confidence),
  evidence_event_id = case when ${isEarlier} then excluded.evidence_event_id else kept.evidence_event_id end,
  first_seen = least(kept.first_seen, excluded.first_seen),
  last_seen = greatest(kept.last_seen, excluded.last_seen),
  expires_at = greatest(kept.expires_at, excluded.expires_at)
where excluded.first_seen < kept.first_seen or excluded.last_seen > kept.last_seen
  or (excluded.first_seen = kept.first_seen and excluded.evidence_event_id < kept.evidence_event_id)`;

export const statementsOf = (edges: DeclaredTable, sight: Columns): readonly string[] => [joinSights(edges, sight)];
