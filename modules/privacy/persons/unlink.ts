// Removes an identifier from a device on a person's decision: writes an event of the device and an
// audit entry in one transaction.
import type { PoolClient } from "pg";
import { type UnlinkDecision, unlinkEvent } from "../../../domain/personal/unlink.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { writeAudit } from "../../base/audit/audit.ts";
import { announce } from "../../base/outbox/outbox.ts";

export interface IdentityLink {
  readonly kind: string;
  readonly identifier: string;
  readonly method: string;
  readonly confidence: number;
  readonly evidence_event_id: string;
  readonly first_seen: UnixMs;
  readonly last_seen: UnixMs;
  readonly expires_at: UnixMs;
  readonly unlinked_at: UnixMs | null;
  /** Other devices of the client that show the identifier, as far as they are linked. */
  readonly other_devices: number;
}
const MOST_SHOWN = 100;

/**
 * Returns the identifiers that are linked to a device (`did` of the log), the newest sighting
 * first.
 */
export const linksOfDevice = async (
  tx: PoolClient,
  clientId: number,
  did: string,
): Promise<readonly IdentityLink[]> => {
  const { rows } = await tx.query<IdentityLink>(sql`
    select kind, identifier, method, confidence, evidence_event_id, first_seen, last_seen, expires_at, unlinked_at,
      (select count(*)::int from identity_edges other where other.client_id = edge.client_id
        and other.kind = edge.kind and other.identifier = edge.identifier and other.did <> edge.did
        and other.unlinked_at is null) as other_devices
    from identity_edges edge where client_id = any (${[clientId]}::int[]) and did = ${did}
    order by last_seen desc, kind, identifier limit ${MOST_SHOWN}`);
  return rows;
};

/** Runs inside a transaction that sees the client. The keeper sends the event after the commit. */
export const recordUnlink = async (tx: PoolClient, unlinked: UnlinkDecision, edge: IdentityLink): Promise<void> => {
  const { decision_id, client_id, did, kind, identifier, actor, reason, at } = unlinked;
  await writeAudit(
    tx,
    { actor, role: "operator", request_id: decision_id, ip: null },
    {
      ...{ action: "identity.unlinked", client_id, entity: `device:${client_id}:${did}` },
      before: { kind, identifier, method: edge.method, evidence_event_id: edge.evidence_event_id },
      after: { decision_id, reason },
    },
  );
  const { value_minor: _, ...event } = unlinkEvent(unlinked);
  await announce(tx, [
    { topic: "events.raw", client_id, record: { received_at: at, event: { ...event, value_minor: null } } },
  ]);
};
