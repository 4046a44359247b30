// Renames a segment, or switches it off for new events.
import { archived } from "../../access/standing.ts";
import { checkVersion, missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { changeReference } from "../reference/change.ts";
import { savedSegments } from "./client-reads.ts";
import { type SegmentInput, segmentEntity } from "./create-segment.ts";
import { lockClient } from "./open-client.ts";

export interface SegmentChange {
  readonly client_id: number;
  readonly code: string;
  readonly patch: Partial<Pick<SegmentInput, "name" | "active">>;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}

/**
 * Throws RefusalError: missing client or segment, `client_archived`, `version_conflict`, and
 * refusals of wrong fields.
 */
export const changeSegment = async (work: Work, { client_id, code, patch, version }: SegmentChange): Promise<void> => {
  const { state } = await lockClient(work, client_id);
  const segment = (await savedSegments(work.tx, client_id)).find((one) => one.code === code);
  if (segment === undefined) throw missing();
  if (state.status === "archived") throw archived("client");
  checkVersion(version, segment.version);
  if (Object.keys(patch).length === 0) return;
  await changeReference(work, { segments: [{ client_id, code, ...patch }] });
  const { name, active } = segment;
  const entity = segmentEntity(client_id, code);
  await work.audit({
    action: "segment.updated",
    client_id,
    entity,
    before: { name, active },
    after: { name, active, ...patch },
  });
};
