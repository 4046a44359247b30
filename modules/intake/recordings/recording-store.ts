// Stores chunks of recordings: commits the row that names the object first, then puts the object.
// So a row names every object, whenever the process dies.
import type { Pool, PoolClient } from "pg";
import { hit } from "#failpoint";
import type { Objects } from "../../../infra/objects/objects.ts";
import { lockUntilCommit, shareUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Chunk } from "./chunk.ts";
import { objectKeyOf, recordingKeyOrNew, sealChunk } from "./sealed-chunk.ts";
import { countBeginning, type NotBegun, type VisitLimits, visitLimits } from "./visit-bounds.ts";

/** Limits of a visit's size, and of the visits that may begin. */
export interface RecordingLimits extends VisitLimits {
  readonly chunks: number;
  readonly bytes: number;
}
export const recordingLimits: RecordingLimits = { chunks: 600, bytes: 24 * 1024 * 1024, ...visitLimits };
/** A session ends after 30 minutes without an event; no person's visit is longer than this. */
const LONGEST_MS = 12 * 3_600_000;

/** Why a chunk is refused for good. */
export type NotTaken = NotBegun | "visit_too_long" | "other_device" | "erased";
export interface TakenChunk {
  readonly chunk: Chunk;
  /** Keyed hash of its `did`. */
  readonly device: string;
  /** The mask in force. */
  readonly mask: number;
  readonly receivedAt: UnixMs;
  /** The address that sent it (senderOf), and its network (networkOf). */
  readonly sender: string;
  readonly network: string;
  /** The chunk has a good ticket; only the first one of a visit needs it. */
  readonly hasTicket: boolean;
}
export interface RecordingPorts {
  readonly pool: Pool;
  readonly objects: Pick<Objects, "putNew">;
  readonly keyring: Keyring;
  readonly limits?: RecordingLimits;
}

/** The lock under which recording excludes erasing and purging. */
export const recordingsLock = (clientId: number): string => `tributary.recordings:${clientId}`;

/**
 * Returns undefined once the chunk is durable. A chunk that is sent again is stored once; of two
 * that differ the first one stays. Rejects when Postgres or object storage fails.
 */
export const storeChunk = async (ports: RecordingPorts, taken: TakenChunk): Promise<NotTaken | undefined> => {
  const { chunk } = taken;
  const found = await transaction(ports.pool, [chunk.clientId], (tx) => nameChunk(tx, ports, taken), {
    role: "tributary_pixel",
  });
  if (typeof found === "string") return found;
  hit("recording-named");
  await ports.objects.putNew(objectKeyOf(chunk), await sealChunk(found, chunk, chunk.events));
  hit("recording-stored");
  return undefined;
};

/** Commits the row of the chunk and returns the key that encrypts it. */
const nameChunk = async (
  tx: PoolClient,
  { keyring, limits = recordingLimits }: RecordingPorts,
  taken: TakenChunk,
): Promise<Buffer | NotTaken> => {
  const { chunk, device } = taken;
  const { clientId } = chunk;
  await shareUntilCommit(tx, recordingsLock(clientId));
  const visit = (await visitOf(tx, chunk)) ?? (await beginVisit(tx, taken, { keyring, limits }));
  if (typeof visit === "string") return visit;
  if (visit.is_erased) return "erased";
  if (visit.device !== device) return "other_device";
  if (!(await isNamed(tx, chunk))) {
    const bytes = Buffer.byteLength(chunk.events);
    const isFull = visit.chunks >= limits.chunks || Number(visit.bytes) + bytes > limits.bytes;
    if (isFull || taken.receivedAt > visit.started_at + LONGEST_MS) return "visit_too_long";
    await addChunk(tx, taken, bytes);
  }
  return recordingKeyOrNew(tx, { clientId, device }, keyring);
};

interface Visit {
  readonly device: string | null;
  readonly started_at: UnixMs;
  readonly chunks: number;
  readonly bytes: bigint;
  readonly is_erased: boolean;
}
/** Locks the visit until the commit, so that its chunks are counted one after another. */
const visitOf = async (tx: PoolClient, { clientId, sessionId }: Chunk): Promise<Visit | undefined> => {
  const { rows } = await tx.query<Visit>(sql`
    select device, started_at, chunks, bytes, erased_at is not null as is_erased from recordings
    where client_id = any (${[clientId]}::int[]) and session_id = ${sessionId} for update`);
  return rows[0];
};

const beginVisit = async (
  tx: PoolClient,
  { chunk, device, mask, receivedAt, sender, network, hasTicket }: TakenChunk,
  { keyring, limits }: Required<Pick<RecordingPorts, "keyring" | "limits">>,
): Promise<Visit | NotBegun> => {
  const { clientId, sessionId } = chunk;
  // New visits are counted one after another, so that the limits hold.
  await lockUntilCommit(tx, `${recordingsLock(clientId)} begin`);
  // Another chunk of the visit may have begun it meanwhile.
  const begun = await visitOf(tx, chunk);
  if (begun !== undefined) return begun;
  const beginning = { clientId, sender, network, hasTicket, receivedAt };
  const bound = await countBeginning(tx, beginning, keyring, limits);
  if (bound !== undefined) return bound;
  const at = new Date(receivedAt);
  await tx.query(sql`insert into recordings (client_id, session_id, device, started_at, last_at, consent, has_ticket)
    values (${clientId}, ${sessionId}, ${device}, ${at}, ${at}, ${mask}, ${hasTicket})`);
  return (await visitOf(tx, chunk))!;
};

const isNamed = async (tx: PoolClient, { clientId, sessionId, page, seq }: Chunk): Promise<boolean> => {
  const { rowCount } = await tx.query(sql`select 1 from recording_chunks
    where client_id = any (${[clientId]}::int[]) and session_id = ${sessionId} and page = ${page} and seq = ${seq}`);
  return rowCount === 1;
};

const addChunk = async (tx: PoolClient, { chunk, mask, receivedAt }: TakenChunk, bytes: number): Promise<void> => {
  const { clientId, sessionId, page, seq, count, firstAt, lastAt } = chunk;
  await tx.query(sql`insert into recording_chunks (client_id, session_id, page, seq, events, first_at, last_at)
    values (${clientId}, ${sessionId}, ${page}, ${seq}, ${count}, ${new Date(firstAt)}, ${new Date(lastAt)})`);
  await tx.query(sql`update recordings set chunks = chunks + 1, events = events + ${count}::int,
      bytes = bytes + ${bytes}::bigint, consent = ${mask}, last_at = greatest(last_at, ${new Date(receivedAt)})
    where client_id = any (${[clientId]}::int[]) and session_id = ${sessionId}`);
};
