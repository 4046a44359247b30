// Raw payloads of sources as they came, sealed and kept for 48 hours, so that a mapping can be
// tried on real payloads.
import type { Pool, PoolClient } from "pg";
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

const insert = (pool: Pool, payloads: readonly TakenPayload[]): Promise<unknown> => {
  const rows = payloads.map(({ sourceId, clientId, receivedAt, outcome, code, bytes, vault }) => ({
    client_id: clientId,
    source_id: sourceId,
    received_at: new Date(receivedAt).toISOString(),
    ...{ outcome, code },
    sealed: sealBytes(vault, Buffer.from(bytes), placeOf(sourceId)).toString("base64"),
  }));
  const clients = [...new Set(payloads.map(({ clientId }) => clientId))];
  return transaction(
    pool,
    clients,
    (tx) =>
      tx.query(sql`
        insert into source_payloads (client_id, source_id, received_at, outcome, code, sealed)
        select client_id, source_id, received_at, outcome, code, decode(sealed, 'base64')
        from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as given (client_id int, source_id int,
          received_at timestamptz, outcome text, code text, sealed text)`),
    { role: "tributary_edge" },
  );
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
          where received_at < ${new Date(now - KEPT_HOURS * 3_600_000)} order by received_at limit ${PURGED_AT_ONCE})`),
      { role: "tributary_keeper" },
    );
    deleted += some.rowCount ?? 0;
    if ((some.rowCount ?? 0) < PURGED_AT_ONCE) break;
  }
  return deleted;
};
