// The statement that joins what was seen of an identity edge with what is known of it.
import type { Statements } from "../stores/postgres.ts";

/**
 * Keys are sorted, so that two writers wait for each other and never deadlock. Of two events at one
 * moment the lower id is the evidence.
 */
const joined = `
insert into identity_edges as kept
  (client_id, did, kind, identifier, method, confidence, evidence_event_id, first_seen, last_seen, expires_at)
select distinct on (client_id, did, kind, identifier)
  client_id, did, kind, identifier, method, confidence, event_id, to_timestamp(at / 1000.0),
  to_timestamp(max(at) over edge / 1000.0), to_timestamp(max(expires_at) over edge / 1000.0)
from json_to_recordset($1::json) as given (
  client_id int, did text, identifier text, kind text, method text, confidence int, event_id uuid, at bigint, expires_at bigint)
window edge as (partition by client_id, did, kind, identifier)
order by client_id, did, kind, identifier, at, event_id
on conflict (client_id, did, kind, identifier) do update set
  method = case when (excluded.first_seen, excluded.evidence_event_id) < (kept.first_seen, kept.evidence_event_id) then excluded.method else kept.method end,
  confidence = greatest(kept.confidence, excluded.confidence),
  evidence_event_id = case when (excluded.first_seen, excluded.evidence_event_id) < (kept.first_seen, kept.evidence_event_id)
    then excluded.evidence_event_id else kept.evidence_event_id end,
  first_seen = least(kept.first_seen, excluded.first_seen),
  last_seen = greatest(kept.last_seen, excluded.last_seen),
  expires_at = greatest(kept.expires_at, excluded.expires_at)
where excluded.first_seen < kept.first_seen or excluded.last_seen > kept.last_seen
  or (excluded.first_seen = kept.first_seen and excluded.evidence_event_id < kept.evidence_event_id)`;

export const identityEdgeStatements: Statements = { identity_edges: [joined] };
