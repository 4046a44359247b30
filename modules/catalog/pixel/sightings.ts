// What the host of pixels sees of each integration, counted by hour, so that a person can be shown
// what is wrong with it.
import type pg from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export interface Sighting {
  readonly client_id: number;
  readonly code: string;
  /** Which page, type or problem; "" where it does not matter. */
  readonly subject: string;
  readonly count: number;
  /** Of clock_skew: the largest difference. */
  readonly largest_ms: number;
  readonly last_at: UnixMs;
}
type SightingCount = { -readonly [Name in keyof Sighting]: Sighting[Name] };
type NewSighting = Pick<Sighting, "client_id" | "code" | "subject"> & { readonly count?: number; readonly ms?: number };

const HOUR_MS = 3_600_000;
const FLUSH_MS = 10_000;
const KEPT_DAYS = 30;
/** What senders can make up; the rest of a client and an hour is counted under the subject "". */
const SUBJECTS_OF_CLIENT = 100;
/** Of all clients, between two writes: about 5 MB. */
const MOST = 20_000;
const MAX_SUBJECT = 200;

export interface Sightings {
  readonly note: (seen: NewSighting) => void;
  /** Writes what was noted; closing it does so too. */
  readonly flush: () => Promise<void>;
  readonly close: () => Promise<void>;
}

const add = (map: Map<string, SightingCount>, one: Sighting): void => {
  const key = `${one.client_id} ${one.code} ${one.subject}`;
  const before = map.get(key);
  if (before === undefined && map.size >= MOST) return;
  if (before === undefined) return void map.set(key, { ...one });
  // Changed where it lies: this is done for each event.
  before.count += one.count;
  before.largest_ms = Math.max(one.largest_ms, before.largest_ms);
  before.last_at = Math.max(one.last_at, before.last_at);
};

/**
 * Counts in memory and writes every ten seconds: what a process has not written when it dies is
 * not counted. What Postgres does not take is written later, within the bound.
 */
export const openSightings = (
  pool: pg.Pool,
  { onError, now = Date.now }: { readonly onError?: (error: unknown) => void; readonly now?: () => UnixMs } = {},
): Sightings => {
  let noted = new Map<string, SightingCount>();
  let subjects = new Map<number, number>();
  const subjectOf = ({ client_id: clientId, code, subject }: NewSighting): string => {
    // Neither half of a surrogate pair nor U+0000: no store takes them.
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
      // In the order of the key: two hosts that write at once wait for each other, and never both.
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
    { role: "tributary_edge" },
  );

/** Of the last days, the most frequent first; one row a code and subject. */
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
