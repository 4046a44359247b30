// Adds a segment to a client.
import { conflict } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { changeReference } from "../reference/change.ts";
import { savedSegments } from "./client-reads.ts";
import { openClient } from "./open-client.ts";

/** The limit exists because a client's row holds the codes of all its segments. */
const MOST_SEGMENTS = 200;

export interface SegmentInput {
  readonly code: string;
  readonly name: string;
  /** True if left out. */
  readonly active?: boolean;
}

/**
 * Throws RefusalError: missing, `client_archived`, `segment_exists`, `too_many_segments`, and
 * refusals of wrong fields.
 */
export const createSegment = async (
  work: Work,
  { client_id, segment }: { readonly client_id: number; readonly segment: SegmentInput },
): Promise<void> => {
  await openClient(work, client_id);
  const segments = await savedSegments(work.tx, client_id);
  if (segments.some(({ code }) => code === segment.code)) throw conflict("segment_exists", "it is there already");
  if (segments.length >= MOST_SEGMENTS) throw conflict("too_many_segments", `a client has at most ${MOST_SEGMENTS}`);
  await changeReference(work, { segments: [{ client_id, ...segment }] });
  const entity = segmentEntity(client_id, segment.code);
  await work.audit({ action: "segment.created", client_id, entity, after: segment });
};

/** The name of a segment in the audit. */
export const segmentEntity = (clientId: number, code: string): string => `segment:${clientId}:${code}`;
