// The index of the dead letters in Postgres: adds failures, claims due letters, and marks them as
// sent and passed.

import type { Pool, PoolClient } from "pg";
import type { LetterKind } from "../../../edges/dead-letters.ts";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Failure, type IndexedLetters, indexFailures, type Letter, letterIdOf, subjectKey } from "./letter.ts";

/** Runs work as the role of the keeper, which may see the letters of every client and of none. */
const asKeeper = <T>(pool: Pool, work: (tx: PoolClient) => Promise<T>): Promise<T> =>
  transaction(pool, null, work, { role: "tributary_keeper" });

/** Reads offsets as numbers and times as milliseconds. */
export const letterColumns = `letter_id, kind, state, stage, code, message,
  json_build_object('topic', source_topic, 'partition', source_partition, 'offset', source_offset) as source,
  json_build_object('topic', kept_topic, 'partition', kept_partition, 'offset', kept_offset) as kept,
  root::text, subject::text, event_id, order_id, client_id, sender, is_stranger, attempts,
  first_failed_at, last_failed_at, next_attempt_at, lease_until, sent_at,
  closed_at, closed_by, close_reason`;

const KNOWN = `
  select ${letterColumns} from dead_letters
  where letter_id = any ($1) or (subject = any ($2::uuid[]) and state <> 'discarded') order by letter_id for update`;
const KNOWN_FAILURES = "select failure_id from dead_letter_failures where failure_id = any ($1::uuid[])";
const SAVE = `
  insert into dead_letters (letter_id, kind, state, stage, code, message, source_topic, source_partition, source_offset,
    kept_topic, kept_partition, kept_offset, root, subject, event_id, order_id, client_id, sender,
    is_stranger, attempts, first_failed_at, last_failed_at, next_attempt_at,
    lease_until, sent_at, closed_at, closed_by, close_reason)
  select letter_id, kind, state, stage, code, message, source->>'topic', (source->>'partition')::int,
    (source->>'offset')::bigint,
    kept->>'topic', (kept->>'partition')::int, (kept->>'offset')::bigint, root, subject, event_id, order_id, client_id,
    sender, is_stranger, attempts,
    to_timestamp(first_failed_at / 1000.0), to_timestamp(last_failed_at / 1000.0),
    to_timestamp(next_attempt_at / 1000.0),
    to_timestamp(lease_until / 1000.0), to_timestamp(sent_at / 1000.0), to_timestamp(closed_at / 1000.0), closed_by,
    close_reason
  from jsonb_to_recordset($1::jsonb) as given (letter_id text, kind text, state text, stage text, code text,
    message text, source jsonb, kept jsonb,
    root uuid, subject uuid, event_id text, order_id text, client_id int, sender text, is_stranger boolean,
    attempts int,
    first_failed_at float8, last_failed_at float8, next_attempt_at float8,
    lease_until float8, sent_at float8, closed_at float8, closed_by text, close_reason text)
  on conflict (letter_id) do update set state = excluded.state, code = excluded.code, message = excluded.message,
    attempts = excluded.attempts,
    last_failed_at = excluded.last_failed_at, next_attempt_at = excluded.next_attempt_at,
    lease_until = excluded.lease_until,
    sent_at = excluded.sent_at, closed_at = excluded.closed_at`;
const TELL = `
  insert into dead_letter_failures (failure_id, letter_id, source_topic, source_partition, source_offset, code, message,
    failed_at, kept_topic, kept_partition, kept_offset)
  select failure_id, letter_id, source->>'topic', (source->>'partition')::int, (source->>'offset')::bigint, code,
    message, to_timestamp(failed_at / 1000.0),
    kept->>'topic', (kept->>'partition')::int, (kept->>'offset')::bigint
  from jsonb_to_recordset($1::jsonb) as given (failure_id uuid, letter_id text, source jsonb, kept jsonb, code text,
    message text, failed_at float8)`;

/**
 * Indexes a batch in one transaction, so that letters and failures appear together. Takes locks,
 * because two failures of one event may lie in two partitions that different readers index. A crash
 * before the offset commit costs a second reading, which changes nothing.
 */
export const indexInPostgres = (
  pool: Pool,
  failures: readonly Failure[],
  random: () => number = Math.random,
): Promise<IndexedLetters> =>
  asKeeper(pool, async (tx) => {
    if (failures.length === 0) return { letters: [], failures: [] };
    await lockUntilCommit(tx, "tributary.dead-letters");
    const ids = [...new Set(failures.map(letterIdOf))];
    const subjectsOf = ({ subject, subject_of_before: ofBefore }: Failure): readonly string[] =>
      [subject, ofBefore].filter((one) => one !== null);
    const subjects = [...new Set(failures.flatMap(subjectsOf))];
    const { rows: found } = await tx.query<Letter>(KNOWN, [ids, subjects]);
    // Locks a subject for all stages: a few unneeded locks are cheaper than passing arrays of
    // pairs.
    const concerned = new Set(
      failures.flatMap((failure) => subjectsOf(failure).map((subject) => subjectKey(subject, failure.stage))),
    );
    const letters = found.filter(
      ({ letter_id, subject, stage }) =>
        ids.includes(letter_id) || (subject !== null && concerned.has(subjectKey(subject, stage))),
    );
    const { rows: recorded } = await tx.query<Pick<Failure, "failure_id">>(KNOWN_FAILURES, [
      failures.map(({ failure_id }) => failure_id),
    ]);
    const known = { letters, failures: new Set(recorded.map(({ failure_id }) => failure_id)) };
    const indexed = indexFailures(known, failures, random);
    if (indexed.failures.length === 0) return indexed;
    await tx.query(SAVE, [JSON.stringify(indexed.letters)]);
    await tx.query(TELL, [
      JSON.stringify(indexed.failures.map(({ letter_id, failure }) => ({ ...failure, letter_id }))),
    ]);
    return indexed;
  });

/** Returns the ids that the index already holds. */
export const knownFailures = (pool: Pool, ids: readonly string[]): Promise<ReadonlySet<string>> =>
  asKeeper(pool, async (tx) => {
    const { rows } = await tx.query<Pick<Failure, "failure_id">>(KNOWN_FAILURES, [ids]);
    return new Set(rows.map(({ failure_id }) => failure_id));
  });

/**
 * A letter with the attempt in which it was sent. A process that finds another attempt in the index
 * leaves the letter alone.
 */
export type Attempt = Pick<Letter, "letter_id" | "attempts">;

const CLAIM = `
  update dead_letters set state = 'retrying', next_attempt_at = null, sent_at = null, lease_until = $2
  where letter_id in (
    select letter_id from dead_letters
    where (state = 'waiting' and next_attempt_at <= $1)
    or (state = 'retrying' and sent_at is null and lease_until <= $1)
    order by coalesce(next_attempt_at, lease_until), letter_id limit $3 for update skip locked)
  returning ${letterColumns}`;

/**
 * Claims at most `most` letters that are due or whose sender died. No other process gets them
 * before the lease ends.
 */
export const claimLetters = async (
  pool: Pool,
  most: number,
  now: UnixMs,
  leaseMs: number,
): Promise<readonly Letter[]> =>
  asKeeper(pool, async (tx) => (await tx.query<Letter>(CLAIM, [new Date(now), new Date(now + leaseMs), most])).rows);

const OF_ATTEMPT = `from unnest($1::text[], $2::int[]) as sent (id, attempt)
  where letter_id = id and attempts = attempt and state = 'retrying'`;
const attempted = (letters: readonly Attempt[]) => [
  letters.map(({ letter_id }) => letter_id),
  letters.map(({ attempts }) => attempts),
];

/**
 * Marks letters as appended to the log again. Skips those that have failed meanwhile: their attempt
 * is over.
 */
export const markSent = async (pool: Pool, letters: readonly Attempt[], now: UnixMs): Promise<void> => {
  await asKeeper(pool, (tx) =>
    tx.query(`update dead_letters set sent_at = $3 ${OF_ATTEMPT}`, [...attempted(letters), new Date(now)]),
  );
};

/** Marks letters as reprocessed: they came through without a new failure. Returns how many. */
export const markPassed = (pool: Pool, letters: readonly Attempt[], now: UnixMs): Promise<number> =>
  asKeeper(pool, async (tx) => {
    const statement =
      `update dead_letters set state = 'reprocessed', lease_until = null, closed_at = $3 ${OF_ATTEMPT} ` +
      "and sent_at is not null";
    return (await tx.query(statement, [...attempted(letters), new Date(now)])).rowCount ?? 0;
  });

/** Parks letters that can never be sent: a person decides about them. */
export const parkLetters = async (pool: Pool, letters: readonly Attempt[], message: string): Promise<void> => {
  const statement = `update dead_letters set state = 'parked', lease_until = null, message = $3 ${OF_ATTEMPT}`;
  await asKeeper(pool, (tx) => tx.query(statement, [...attempted(letters), message]));
};

/** Discards claimed letters without a request by a person, because their subject is erased. */
export const discardClaimed = async (
  pool: Pool,
  letters: readonly Attempt[],
  reason: string,
  now: UnixMs,
): Promise<void> => {
  const statement =
    "update dead_letters set state = 'discarded', lease_until = null, closed_at = $3, closed_by = " +
    `'keeper', close_reason = $4 ${OF_ATTEMPT}`;
  await asKeeper(pool, (tx) => tx.query(statement, [...attempted(letters), new Date(now), reason]));
};

/** Letters that were sent and are not confirmed yet. */
export const lettersUnderWay = (pool: Pool): Promise<readonly Attempt[]> =>
  asKeeper(
    pool,
    async (tx) =>
      (
        await tx.query<Attempt>(
          "select letter_id, attempts from dead_letters where state = 'retrying' and sent_at is not null",
        )
      ).rows,
  );

export type Depth = Readonly<Record<LetterKind, number>>;

/**
 * 100 letters a minute over ten minutes. Anyone may write to the pixel, so fewer letters of
 * strangers say nothing about the installation; more of them are an attack or a wrong release of a
 * shop.
 */
const FEW_STRANGERS = 1_000;

export interface OpenCounts {
  readonly depth: Depth;
  /** How many of these are of strangers; 0 while strangers write more than a few. */
  readonly fewStrangers: number;
}

/** Counts open letters of each kind: waiting, retrying and parked. */
export const openCounts = async (pool: Pool): Promise<OpenCounts> => {
  type Row = { readonly kind: LetterKind; readonly count: number; readonly strangers: number; readonly newest: number };
  const { rows } = await transaction(
    pool,
    null,
    (tx) =>
      tx.query<Row>(`
        select kind, count(*)::int as count, count(*) filter (where is_stranger)::int as strangers,
          count(*) filter (where is_stranger and first_failed_at > clock_timestamp() - interval '10 minutes')::int
            as newest
        from dead_letters where state in ('waiting', 'retrying', 'parked') group by kind`),
    { role: "tributary_edge", isReadOnly: true },
  );
  const of = (kind: LetterKind): number => rows.find((row) => row.kind === kind)?.count ?? 0;
  const sum = (name: "strangers" | "newest"): number => rows.reduce((total, row) => total + row[name], 0);
  return {
    depth: { clicks: of("clicks"), pixel: of("pixel"), s2s: of("s2s") },
    fewStrangers: sum("newest") < FEW_STRANGERS ? sum("strangers") : 0,
  };
};

export const letterDepth = async (pool: Pool): Promise<Depth> => (await openCounts(pool)).depth;

export interface OpenLetters {
  readonly kind: LetterKind;
  readonly state: "waiting" | "retrying" | "parked";
  readonly count: number;
  /** Time since the oldest letter first failed. */
  readonly seconds: number;
}
export const openLetters = async (pool: Pool): Promise<readonly OpenLetters[]> =>
  asKeeper(
    pool,
    async (tx) =>
      (
        await tx.query<OpenLetters>(`
          select kind, state, count(*)::int as count,
            extract(epoch from clock_timestamp() - min(first_failed_at))::float8 as seconds
          from dead_letters where state in ('waiting', 'retrying', 'parked') group by kind, state`)
      ).rows,
  );

/** The names that `probe_states` uses. */
export type ProbedStore = "analytics_store" | "cache_store" | "relational_store";

/**
 * Makes letters due now that a store refused before it recovered. A recovery does this once for
 * each letter, because a letter that fails again has failed after the recovery. Returns the number
 * of these letters.
 */
export const wakeLetters = (pool: Pool, stages: Readonly<Record<ProbedStore, readonly string[]>>): Promise<number> =>
  asKeeper(pool, async (tx) => {
    let woken = 0;
    for (const [store, names] of Object.entries(stages)) {
      const { rowCount } = await tx.query(sql`
        update dead_letters set next_attempt_at = clock_timestamp() from probe_states
        where name = ${store} and probe_states.state = 'healthy' and last_failed_at < probe_states.since
          and dead_letters.state = 'waiting' and code = 'refused_by_store' and stage = any (${names})
          and next_attempt_at > clock_timestamp()`);
      woken += rowCount ?? 0;
    }
    return woken;
  });

/**
 * Processes load saved settings within half a second; 2 s also covers events that they refused
 * until then.
 */
const IN_FORCE_MS = 2_000;

/**
 * Makes letters due now that were refused before their source or payment provider was saved, parked
 * ones included. A saving does this once for each letter, because a letter that fails again has
 * failed after it. Returns the number of these letters.
 */
export const wakeCorrected = (pool: Pool): Promise<number> =>
  asKeeper(pool, async (tx) => {
    const inForce = sql`${IN_FORCE_MS} * interval '1 millisecond'`;
    const { rowCount } = await tx.query(sql`
      update dead_letters set state = 'waiting', next_attempt_at = clock_timestamp()
      from (select 'src_' || source_id as name, client_id as of, updated_at + ${inForce} as at from sources
        union all select processor, client_id, updated_at + ${inForce} from payment_processors) as saved
      where sender = saved.name and client_id = saved.of and last_failed_at < saved.at
        and saved.at < clock_timestamp() and state in ('waiting', 'parked')
        and (state = 'parked' or next_attempt_at > clock_timestamp())`);
    return rowCount ?? 0;
  });
