// The newest raw payloads of sources as they came, each once, sealed and kept for 48 hours, so that
// a mapping can be tried on real payloads.
import { createHmac } from "node:crypto";
import type { Pool, PoolClient } from "pg";
import { derive } from "../../../domain/hmac.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import { gather } from "../../../infra/runtime/timing/gather.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { sealBytes, unsealBytes } from "../../access/secrets/seal.ts";

export interface TakenPayload {
  readonly sourceId: number;
  readonly clientId: number;
  readonly receivedAt: UnixMs;
  readonly outcome: "accepted" | "duplicate" | "refused";
  /** The code of a refusal. */
  readonly code: string | null;
  readonly bytes: Uint8Array;
  readonly vault: Buffer;
}
/** A kept payload as it came. */
export interface KeptPayload {
  readonly payload_id: string;
  readonly received_at: UnixMs;
  readonly outcome: TakenPayload["outcome"];
  readonly code: string | null;
  readonly bytes: Buffer;
}

const AT_ONCE = 200;
/**
 * The most payloads that are being stored. Further ones are not kept, so that a slow database costs
 * no memory.
 */
const MOST_WAITING = 4_000;
/** How long Postgres is left alone after it has failed to respond. */
const PAUSE_MS = 5_000;
const KEPT_HOURS = 48;
/**
 * How many payloads of a source are kept, and as many that were refused: a stranger who may send to
 * it unsigned cannot fill the disk, and his refused payloads do not push out good ones.
 */
const KEPT_OF_SOURCE = 100;
const PURGED_AT_ONCE = 5_000;

const placeOf = (sourceId: number): string => `source_payloads/${sourceId}`;

/**
 * Resolves when the payload is stored or cannot be stored. The event counts in both cases, so this
 * never rejects.
 */
export type KeepPayload = (payload: TakenPayload) => Promise<void>;

export const openPayloads = (
  pool: Pool,
  log: Pick<Log, "warn">,
  now: () => number = () => performance.now(),
): KeepPayload => {
  const store = gather<TakenPayload, void>(async (payloads) => {
    await insert(pool, payloads);
    return payloads.map(() => undefined);
  }, AT_ONCE);
  let waiting = 0;
  let pausedUntil = 0;
  return async (payload) => {
    if (waiting >= MOST_WAITING || now() < pausedUntil) return;
    waiting += 1;
    try {
      await store(payload);
    } catch (error) {
      if (now() >= pausedUntil) log.warn("payloads.not_kept", { error });
      pausedUntil = now() + PAUSE_MS;
    } finally {
      waiting -= 1;
    }
  };
};

type HashedPayload = TakenPayload & { readonly hash: string };

/** Of payloads of a source with the same bytes the newest. */
const onceEach = (payloads: readonly TakenPayload[]): readonly HashedPayload[] => {
  const newest = new Map<string, HashedPayload>();
  for (const payload of payloads.toSorted((a, b) => a.receivedAt - b.receivedAt)) {
    const hash = hashOf(payload);
    newest.set(`${payload.sourceId}:${hash}`, { ...payload, hash });
  }
  return [...newest.values()];
};

const hashOf = ({ vault, bytes }: TakenPayload): string =>
  createHmac("sha256", derive(vault.toString("base64"), "source-payload:1"))
    .update(bytes)
    .digest("hex");

const insert = async (pool: Pool, payloads: readonly TakenPayload[]): Promise<void> => {
  const rows = onceEach(payloads).map(({ sourceId, clientId, receivedAt, outcome, code, bytes, vault, hash }) => ({
    client_id: clientId,
    source_id: sourceId,
    received_at: new Date(receivedAt).toISOString(),
    ...{ outcome, code },
    sealed: sealBytes(vault, Buffer.from(bytes), placeOf(sourceId)).toString("base64"),
    payload_hash: hash,
  }));
  const clients = [...new Set(payloads.map(({ clientId }) => clientId))];
  const sources = [...new Set(payloads.map(({ sourceId }) => sourceId))];
  const write = async (tx: PoolClient): Promise<void> => {
    // In one order, so that two edges which keep the same payloads do not wait for each other.
    await tx.query(sql`
      insert into source_payloads as kept (client_id, source_id, received_at, outcome, code, sealed, payload_hash)
      select client_id, source_id, received_at, outcome, code, decode(sealed, 'base64'), decode(payload_hash, 'hex')
      from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as given (client_id int, source_id int,
        received_at timestamptz, outcome text, code text, sealed text, payload_hash text)
      order by source_id, payload_hash
      on conflict (source_id, payload_hash) do update set outcome = excluded.outcome, code = excluded.code,
        received_at = greatest(kept.received_at, excluded.received_at)`);
    // Rows that another edge deletes or has just received again are left to it.
    await tx.query(sql`
      delete from source_payloads where payload_id in (
        select payload_id from source_payloads where client_id = any (${clients}::int[]) and payload_id in (
          select payload_id from (
            select payload_id, row_number() over (partition by source_id, outcome = 'refused'
              order by received_at desc, payload_id desc) as place
            from source_payloads where client_id = any (${clients}::int[]) and source_id = any (${sources}::int[])
          ) as ranked where place > ${KEPT_OF_SOURCE})
        order by payload_id for update skip locked)`);
  };
  await transaction(pool, clients, write, { role: "tributary_edge" });
};

/** The newest payloads of a source, newest first, in a transaction that sees its client. */
export const newestPayloads = async (
  tx: PoolClient,
  source: { readonly source_id: number; readonly client_id: number },
  vault: Buffer,
  most: number,
): Promise<readonly KeptPayload[]> => {
  const { rows } = await tx.query<Omit<KeptPayload, "bytes"> & { readonly sealed: Buffer }>(sql`
    select payload_id::text, received_at, outcome, code, sealed from source_payloads
    where client_id = any (${[source.client_id]}::int[]) and source_id = ${source.source_id}
      and received_at > clock_timestamp() - make_interval(hours => ${KEPT_HOURS})
    order by received_at desc, payload_id desc limit ${most}`);
  return rows.map(({ sealed, ...row }) => ({ ...row, bytes: unsealBytes(vault, sealed, placeOf(source.source_id)) }));
};

/**
 * Deletes all payloads of the client, because only the mapping could tell whose data a payload
 * holds. Needs a transaction that sees the client.
 */
export const erasePayloads = async (tx: PoolClient, clientId: number): Promise<void> => {
  // Locked in the order of `insert`, or the two could end in a deadlock, and the erasure fail.
  await tx.query(sql`
    select from source_payloads where client_id = any (${[clientId]}::int[])
    order by source_id, payload_hash, payload_id for update`);
  await tx.query(sql`delete from source_payloads where client_id = any (${[clientId]}::int[])`);
};

/**
 * Deletes payloads older than 48 hours and returns their number. Deleting twice has the effect of
 * once, so it needs no lock.
 */
export const purgePayloads = async (pool: Pool, now: UnixMs, isClosing = () => false): Promise<number> => {
  let deleted = 0;
  while (!isClosing()) {
    const some = await transaction(
      pool,
      null,
      (tx) =>
        tx.query(sql`delete from source_payloads where payload_id in (select payload_id from source_payloads
          where received_at < ${new Date(now - KEPT_HOURS * 3_600_000)}
          order by received_at limit ${PURGED_AT_ONCE} for update skip locked)`),
      { role: "tributary_keeper" },
    );
    deleted += some.rowCount ?? 0;
    if ((some.rowCount ?? 0) < PURGED_AT_ONCE) break;
  }
  return deleted;
};
