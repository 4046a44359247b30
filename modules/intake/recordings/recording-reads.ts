// Reads one recording for an operator: writes the audit before it reads anything, and refuses when
// the visitor no longer consents.
import type { Pool, PoolClient } from "pg";
import { ObjectMissing, type Objects } from "../../../infra/objects/objects.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Act, writeAudit } from "../../base/audit/audit.ts";
import { REPLAY_BITS } from "./gates.ts";
import { type ChunkPlace, objectKeyOf, recordingKey, unsealChunk } from "./sealed-chunk.ts";

interface Recording {
  readonly session_id: string;
  readonly started_at: UnixMs;
  readonly seconds: number;
  readonly events: number;
  readonly consent: number;
}
interface RecordedPage {
  readonly page: string;
  /** The recorder's events, by time. */
  readonly events: readonly { readonly timestamp: UnixMs }[];
}
export interface OpenedRecording extends Recording {
  /** Pages in the order in which the visitor opened them. */
  readonly pages: readonly RecordedPage[];
  /** Chunks that were named and never stored, e.g. because a host was killed. */
  readonly missing: number;
}
/** Why it is not shown. */
export type NotShown = "unknown" | "erased" | "withdrawn";

interface StoredRecording extends Recording {
  readonly device: string | null;
}
/** Returns the visitor's latest choice; undefined: none is stored. */
type LatestMask = (clientId: number, device: string) => Promise<number | undefined>;

export interface ViewPorts {
  readonly pool: Pool;
  readonly objects: Pick<Objects, "get">;
  readonly keyring: Keyring;
  readonly latestMask: LatestMask;
}

/**
 * Returns the clients with a recording of this visit: one, unless a page has forged its session id.
 */
export const clientsOfRecording = (pool: Pool, sessionId: string): Promise<readonly number[]> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query<{ client_id: number }>(sql`select client_id from recordings where session_id = ${sessionId}`))
        .rows,
    { role: "tributary_keeper", isReadOnly: true },
  ).then((rows) => rows.map(({ client_id }) => client_id));

/** Loads the whole visit into memory, 24 MiB at most. Rejects when a store does not respond. */
export const openRecording = async (
  ports: ViewPorts,
  { clientId, sessionId }: { readonly clientId: number; readonly sessionId: string },
  by: Act,
): Promise<OpenedRecording | NotShown> => {
  const found = await transaction(ports.pool, [clientId], (tx) => storedVisit(tx, clientId, sessionId));
  if (found === undefined) return "unknown";
  const { device, ...recording } = found;
  const mask = device === null ? 0 : ((await ports.latestMask(clientId, device)) ?? recording.consent);
  const isShown = (mask & REPLAY_BITS) === REPLAY_BITS;
  const after = { seconds: recording.seconds, events: recording.events, is_shown: isShown };
  const viewed = { action: "replay.viewed", client_id: clientId, entity: `replay:${sessionId}`, after };
  await transaction(ports.pool, [clientId], (tx) => writeAudit(tx, by, viewed));
  if (device === null) return "erased";
  if (!isShown) return "withdrawn";
  const { key, places } = await contentOf(ports, { clientId, sessionId, device });
  if (key === undefined) return "erased";
  return { ...recording, ...(await pagesOf(ports.objects, key, places)) };
};

const storedVisit = async (
  tx: PoolClient,
  clientId: number,
  sessionId: string,
): Promise<StoredRecording | undefined> => {
  const { rows } = await tx.query<StoredRecording>(sql`
    select session_id, device, started_at, consent, events,
      extract(epoch from last_at - started_at)::float8 as seconds
    from recordings where client_id = any (${[clientId]}::int[]) and session_id = ${sessionId}`);
  return rows[0];
};

const contentOf = (
  { pool, keyring }: Pick<ViewPorts, "pool" | "keyring">,
  { clientId, sessionId, device }: { readonly clientId: number; readonly sessionId: string; readonly device: string },
) =>
  transaction(
    pool,
    [clientId],
    async (tx) => {
      const key = await recordingKey(tx, { clientId, device }, keyring);
      const { rows } = await tx.query<Pick<ChunkPlace, "page" | "seq">>(sql`select page, seq from recording_chunks
        where client_id = any (${[clientId]}::int[]) and session_id = ${sessionId} order by first_at, page, seq`);
      return { key, places: rows.map((row): ChunkPlace => ({ clientId, sessionId, ...row })) };
    },
    { role: "tributary_pixel", isReadOnly: true },
  );

const pagesOf = async (objects: Pick<Objects, "get">, key: Buffer, places: readonly ChunkPlace[]) => {
  const pages = new Map<string, RecordedPage["events"][number][]>();
  let missing = 0;
  for (const place of places) {
    const sealed = await objects.get(objectKeyOf(place)).catch((error: unknown) => {
      if (!(error instanceof ObjectMissing)) throw error;
      missing += 1;
    });
    if (sealed === undefined) continue;
    const events = (await unsealChunk(key, place, sealed)) as RecordedPage["events"];
    pages.set(place.page, [...(pages.get(place.page) ?? []), ...events]);
  }
  const sorted = [...pages].map(([page, events]) => ({
    page,
    events: events.toSorted((a, b) => a.timestamp - b.timestamp),
  }));
  return { pages: sorted, missing };
};
