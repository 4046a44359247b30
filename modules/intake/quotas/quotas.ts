// Counts what is sent in the name of each client against the quota of its plan, over all edge
// processes. A quota is a bucket: it runs off by a day's quota a day, and holds some hours of it at
// once. So a flood shuts a door for a while, and never for the rest of a day.
import type { Pool, PoolClient } from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { QuotaSpent } from "../../../infra/runtime/errors.ts";

/**
 * `open` is what anyone can send: pixels, links, recordings, payloads without a signature, batches
 * with a token that pages show. `signed` is what bears a credential. Each has the whole quota of
 * the client, so that a stranger cannot spend that of the client's servers.
 */
export type QuotaSide = "open" | "signed";

/** The client of what names no client of ours. */
export const STRANGERS = 0;
/** The plan of strangers, and the one that holds for a plan without a row. */
const STRANGERS_PLAN = "strangers";
const USUAL_PLAN = "standard";

/** From this share on, only what moves money is taken; the rest is kept for it. */
const SHED_AT = 0.9;
const DAY_MS = 86_400_000;
const FLUSH_MS = 2_000;

export interface Spending {
  readonly clientId: number;
  readonly side: QuotaSide;
  readonly events: number;
  /** Of the body. */
  readonly bytes: number;
  /** Page views and the like are refused before purchases are. */
  readonly movesMoney: boolean;
}

export interface Quotas {
  /** Counts a request; false if the quota has no room for it: then it counts as refused alone. */
  readonly spend: (spending: Spending) => boolean;
  /** Adds what was spent to the common state and reads that of the other processes. */
  readonly flush: () => Promise<void>;
  readonly close: () => Promise<void>;
}

interface Amount {
  readonly events: number;
  readonly bytes: number;
}
/** What was taken and refused between two writes. */
interface Batch extends Amount {
  readonly refused: number;
}
const none: Batch = { events: 0, bytes: 0, refused: 0 };
const plus = (one: Batch, other: Batch): Batch => ({
  events: one.events + other.events,
  bytes: one.bytes + other.bytes,
  refused: one.refused + other.refused,
});

/** The state of one side of a client in this process. */
interface Bucket {
  readonly clientId: number;
  readonly side: QuotaSide;
  /** Undefined until the first flush: then everything is taken. */
  known: { readonly spent: Amount; readonly aDay: Amount; readonly most: Amount; readonly at: number } | undefined;
  /** Not written yet, and being written. */
  unsent: Batch;
  sending: Batch;
  /** Asked for since the last flush. */
  isTouched: boolean;
}

export interface QuotaOptions {
  /** The role with which the process writes; the logins of edges need none. */
  readonly role?: "tributary_edge";
  readonly onError?: (error: unknown) => void;
  /** Monotonic milliseconds; defaults to the clock of the process. */
  readonly now?: () => number;
}

/**
 * Decides in memory and writes every two seconds, so that no request waits for Postgres; all
 * processes together may pass a quota by what they take in that time. While Postgres is away each
 * process counts alone. What a killed process had not written is not counted.
 */
export const openQuotas = (pool: Pool, options: QuotaOptions = {}): Quotas => {
  const { onError, role, now = () => performance.now() } = options;
  const buckets = new Map<string, Bucket>();
  const bucketOf = (clientId: number, side: QuotaSide): Bucket => {
    const key = `${clientId} ${side}`;
    let bucket = buckets.get(key);
    if (bucket === undefined) {
      bucket = { clientId, side, known: undefined, unsent: none, sending: none, isTouched: false };
      buckets.set(key, bucket);
    }
    return bucket;
  };
  const flush = async (): Promise<void> => {
    // A spent bucket is read again although nothing was sent: an operator may have raised its plan,
    // and the next request must not be refused by what was known when the last one came.
    const isDue = (bucket: Bucket): boolean => bucket.isTouched || shareOf(bucket, now()) >= SHED_AT;
    const touched = [...buckets.values()].filter(isDue);
    if (touched.length === 0) return;
    for (const bucket of touched) {
      bucket.sending = bucket.unsent;
      bucket.unsent = none;
      bucket.isTouched = false;
    }
    try {
      for (const row of await write(pool, touched, role)) {
        const { events_a_day, bytes_a_day, burst_hours, events, bytes } = row;
        const aDay = { events: events_a_day, bytes: bytes_a_day };
        const most = { events: (events_a_day * burst_hours) / 24, bytes: (bytes_a_day * burst_hours) / 24 };
        bucketOf(row.client_id, row.side).known = { spent: { events, bytes }, aDay, most, at: now() };
      }
    } catch (error) {
      onError?.(error);
      for (const bucket of touched) {
        bucket.unsent = plus(bucket.unsent, bucket.sending);
        bucket.isTouched = true;
      }
    }
    for (const bucket of touched) bucket.sending = none;
  };
  const running = repeat(flush);
  return {
    spend: ({ clientId, side, movesMoney, events, bytes }) => {
      const bucket = bucketOf(clientId, side);
      bucket.isTouched = true;
      const hasRoom = shareOf(bucket, now()) < (movesMoney ? 1 : SHED_AT);
      const batch = hasRoom ? { events, bytes, refused: 0 } : { events: 0, bytes: 0, refused: events };
      bucket.unsent = plus(bucket.unsent, batch);
      return hasRoom;
    },
    flush: running.once,
    close: async () => {
      await running.stop();
      await running.once();
    },
  };
};

/** Runs one after the other: two flushes at once would take each other's amounts. */
const repeat = (work: () => Promise<void>) => {
  let underWay: Promise<void> = Promise.resolve();
  const once = (): Promise<void> => {
    underWay = underWay.then(work);
    return underWay;
  };
  const timer = setInterval(once, FLUSH_MS);
  timer.unref();
  return {
    once,
    stop: (): Promise<void> => {
      clearInterval(timer);
      return underWay;
    },
  };
};

/** The share of the quota that is spent now, the larger of events and bytes. */
const shareOf = ({ known, unsent, sending }: Bucket, now: number): number => {
  if (known === undefined) return 0;
  const { spent, aDay, most, at } = known;
  const days = (now - at) / DAY_MS;
  const level = (name: keyof Amount): number =>
    (Math.max(0, spent[name] - aDay[name] * days) + unsent[name] + sending[name]) / most[name];
  return Math.max(level("events"), level("bytes"));
};

interface WrittenRow {
  readonly client_id: number;
  readonly side: QuotaSide;
  readonly events: number;
  readonly bytes: number;
  readonly events_a_day: number;
  readonly bytes_a_day: number;
  readonly burst_hours: number;
}

const write = (pool: Pool, touched: readonly Bucket[], role = "none"): Promise<readonly WrittenRow[]> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const clients = touched.map(({ clientId }) => clientId);
      const plans = await plansOf(tx, clients);
      await tx.query(`set local role ${role}`);
      const amounts = (name: keyof Batch) => touched.map(({ sending }) => sending[name]);
      const { rows } = await tx.query<WrittenRow>(sql`
        with asked as materialized (
          select a.*, p.events_a_day, p.bytes_a_day, p.burst_hours
          from unnest(${clients}::int[], ${touched.map(({ side }) => side)}::text[],
            ${clients.map((id) => plans.get(id) ?? USUAL_PLAN)}::text[], ${amounts("events")}::float8[],
            ${amounts("bytes")}::float8[], ${amounts("refused")}::int8[])
            as a (client_id, side, plan, events, bytes, refused)
          join lateral (select * from intake_plans i where i.plan in (a.plan, ${USUAL_PLAN})
            order by i.plan = a.plan desc limit 1) p on true),
        spent as (
          -- In the order of the key, so that two processes that write at once cannot deadlock.
          insert into intake_usage as u (client_id, side, events, bytes, measured_at, refused, refused_at)
          select client_id, side, events, bytes, clock_timestamp(), refused,
            case when refused > 0 then clock_timestamp() end
          from asked order by client_id, side
          on conflict (client_id, side) do update set (events, bytes, measured_at, refused, refused_at) = (
            select greatest(0, u.events - a.events_a_day * r.days) + excluded.events,
              greatest(0, u.bytes - a.bytes_a_day * r.days) + excluded.bytes, clock_timestamp(),
              u.refused + excluded.refused, coalesce(excluded.refused_at, u.refused_at)
            from asked a, (select greatest(0, extract(epoch from clock_timestamp() - u.measured_at)) / 86400 as days) r
            where a.client_id = excluded.client_id and a.side = excluded.side)
          returning u.client_id, u.side, u.events, u.bytes)
        select s.client_id, s.side, s.events, s.bytes, a.events_a_day::float8, a.bytes_a_day::float8, a.burst_hours
        from spent s join asked a using (client_id, side)`);
      return rows;
    },
    { role: "tributary_reference" },
  );

const plansOf = async (tx: PoolClient, clients: readonly number[]): Promise<ReadonlyMap<number, string>> => {
  const { rows } = await tx.query<{ client_id: number; plan: string }>(sql`
    select distinct on (client_id) client_id, plan from clients where client_id = any (${clients}::int[])
    order by client_id, version desc`);
  return new Map([[STRANGERS, STRANGERS_PLAN], ...rows.map(({ client_id, plan }) => [client_id, plan] as const)]);
};

/** The limit of `Retry-After` in docs/design/contracts.md. */
const RETRY_SEC = 5;

/** Throws QuotaSpent if there is no room. */
export const expectQuota = ({ spend }: Pick<Quotas, "spend">, spending: Spending): void => {
  if (!spend(spending)) throw quotaSpent(spending);
};

export const quotaSpent = ({ clientId, movesMoney }: Pick<Spending, "clientId" | "movesMoney">): QuotaSpent => {
  const upTo = movesMoney ? "" : " up to what is kept for purchases";
  return new QuotaSpent(
    clientId === STRANGERS
      ? "more is sent without a known client than this installation keeps of strangers: send the id of a client"
      : `the quota of what is sent of client ${clientId} is spent${upTo}: it comes back within hours, ` +
          "and an operator can raise it",
    RETRY_SEC,
  );
};
