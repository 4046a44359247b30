// Counts by hour what the pixel host receives from each integration, so that a person can find out
// what is wrong with it.
import type pg from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface Sighting {
  readonly client_id: number;
  readonly code: string;
  /** The page, type or problem; "" if it does not matter. */
  readonly subject: string;
  readonly count: number;
  /** The largest difference, for the code clock_skew. */
  readonly largest_ms: number;
  readonly last_at: UnixMs;
}
type SightingCount = { -readonly [Name in keyof Sighting]: Sighting[Name] };
type NewSighting = Pick<Sighting, "client_id" | "code" | "subject"> & { readonly count?: number; readonly ms?: number };

const HOUR_MS = 3_600_000;
const FLUSH_MS = 10_000;
const KEPT_DAYS = 30;
/**
 * Limits the subjects, because senders can invent them. Beyond the limit a client's subjects are
 * counted under "".
 */
const SUBJECTS_OF_CLIENT = 100;
/** The limit for all clients between two writes, about 5 MB. */
const MOST = 20_000;
const MAX_SUBJECT = 200;

export interface Sightings {
  readonly note: (seen: NewSighting) => void;
  /** Writes the counted sightings; `close` does so too. */
  readonly flush: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const add = (map: Map<string, SightingCount>, one: Sighting): void => {
  const key = `${one.client_id} ${one.code} ${one.subject}`;
  const before = map.get(key);
  if (before === undefined && map.size >= MOST) return;
  if (before === undefined) return void map.set(key, { ...one });
  // Changes the count in place, because this runs for each event.
  before.count += one.count;
  before.largest_ms = Math.max(one.largest_ms, before.largest_ms);
  before.last_at = Math.max(one.last_at, before.last_at);
};

/**
 * Counts in memory and writes every ten seconds. Counts that a killed process had not written are
 * lost. Counts that Postgres does not take are written later, within the limit.
 */
export const openSightings = (
  pool: pg.Pool,
  { onError, now = Date.now }: { readonly onError?: (error: unknown) => void; readonly now?: () => UnixMs } = {},
): Sightings => {
  let noted = new Map<string, SightingCount>();
  let subjects = new Map<number, number>();
  const subjectOf = ({ client_id: clientId, code, subject }: NewSighting): string => {
    // Removes halves of surrogate pairs and U+0000, which no store accepts.
    if (subject === "" || noted.has(`${clientId} ${code} ${subject}`)) return subject;
    const text = Buffer.from(subject.slice(0, MAX_SUBJECT)).toString().replaceAll("\0", "");
    if (text === "" || noted.has(`${clientId} ${code} ${text}`)) return text;
    const known = subjects.get(clientId) ?? 0;
    if (known >= SUBJECTS_OF_CLIENT) return "";
    subjects.set(clientId, known + 1);
    return text;
  };
  const flush = async (): Promise<void> => {
    const written = noted;
    if (written.size === 0) return;
    noted = new Map();
    subjects = new Map();
    try {
      await write(pool, [...written.values()], now());
    } catch (error) {
      onError?.(error);
      for (const one of written.values()) add(noted, one);
    }
  };
  const timer = setInterval(flush, FLUSH_MS);
  timer.unref();
  return {
    note: (seen) => {
      const { client_id, code, count = 1, ms = 0 } = seen;
      add(noted, { client_id, code, subject: subjectOf(seen), count, largest_ms: ms, last_at: now() });
    },
    flush,
    close: async () => {
      clearInterval(timer);
      await flush();
    },
  };
};

const write = (pool: pg.Pool, all: readonly Sighting[], now: UnixMs): Promise<void> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const column = <Name extends keyof Sighting>(name: Name) => all.map((one) => one[name]);
      // Writes in the order of the key, so that two hosts that write at once cannot deadlock.
      await tx.query(sql`
        insert into pixel_sightings as known (client_id, hour, code, subject, count, largest_ms, last_at)
        select client_id, date_trunc('hour', ${new Date(now)}::timestamptz, 'UTC'), code, subject, count, largest_ms,
          to_timestamp(last_at / 1000.0)
        from unnest(${column("client_id")}::int[], ${column("code")}::text[], ${column("subject")}::text[],
          ${column("count")}::int8[], ${column("largest_ms")}::int8[], ${column("last_at")}::float8[])
          as seen (client_id, code, subject, count, largest_ms, last_at)
        order by client_id, code, subject
        on conflict (client_id, hour, code, subject) do update set count = known.count + excluded.count,
          largest_ms = greatest(known.largest_ms, excluded.largest_ms),
          last_at = greatest(known.last_at, excluded.last_at)`);
      await tx.query(sql`delete from pixel_sightings where hour < ${new Date(now - KEPT_DAYS * 24 * HOUR_MS)}`);
    },
    { role: "tributary_pixel" },
  );

/** The sightings of the last days by code and subject, most frequent first. */
export const readSightings = async (
  tx: pg.PoolClient,
  clientId: number,
  clients: readonly number[],
  since: UnixMs,
): Promise<readonly Sighting[]> => {
  const { rows } = await tx.query<Sighting>(sql`
    select client_id, code, subject, sum(count)::float8 as count, max(largest_ms)::float8 as largest_ms,
      max(last_at) as last_at
    from pixel_sightings
    where client_id = ${clientId} and client_id = any (${clients}::int[]) and hour >= ${new Date(since - HOUR_MS)}
    group by client_id, code, subject order by sum(count) desc, code, subject limit 500`);
  return rows;
};
