// Finds the owner of a token by its SHA-256, in a copy of the live tokens that every process keeps.
import { hash } from "node:crypto";
import type pg from "pg";
import { keepSnapshot, type SnapshotAt } from "../../../infra/postgres/snapshot.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type Token, tokenForm } from "./tokens.ts";

export interface Tokens {
  /** Returns the token if it is known and not revoked. Counts as a use, which is written later. */
  readonly find: (token: string) => Token | undefined;
  /**
   * Does the same, but looks into Postgres first if the token is not known: it may be new. Such
   * look-ups are shared, at most ten in a second. Throws Unavailable if Postgres cannot be asked;
   * what cannot be a token of ours is refused without it.
   */
  readonly lookUp: (token: string) => Promise<Token | undefined>;
  /** Resolves with the first load, however long Postgres is away. */
  readonly ready: Promise<void>;
  /**
   * While Postgres is away: the database time of the last load. The tokens of that load stay valid.
   */
  readonly staleSince: () => UnixMs | undefined;
  /** Writes the last uses and stops polling; close it before its pool. */
  readonly close: () => Promise<void>;
}

interface Picture {
  readonly revision: number;
  /**
   * Keyed by the SHA-256 in hex: the time of a lookup reveals at most something about the hash,
   * never about the token.
   */
  readonly live: ReadonlyMap<string, Token>;
}

/**
 * Keeps the live tokens in memory. With a poll of 500 ms a revocation takes effect within a second.
 */
export const openTokens = (
  pool: pg.Pool,
  options: {
    readonly pollMs?: number;
    readonly writeUsesMs?: number;
    readonly onError?: (error: unknown) => void;
  } = {},
): Tokens => {
  const snapshot = keepSnapshot<Picture>((before) => take(pool, before), {
    pollMs: options.pollMs ?? 500,
    onError: options.onError,
  });
  const used = new Set<number>();
  const writeUses = async (): Promise<void> => {
    const ids = [...used];
    used.clear();
    if (ids.length === 0) return;
    try {
      await transaction(
        pool,
        null,
        (tx) => tx.query(sql`update tokens set last_used_at = clock_timestamp() where token_id = any (${ids})`),
        {
          role: "tributary_edge",
        },
      );
    } catch (error) {
      for (const id of ids) used.add(id);
      options.onError?.(error);
    }
  };
  const timer = setInterval(writeUses, options.writeUsesMs ?? 60_000);
  timer.unref();
  const find = (token: string): Token | undefined => {
    // Checks the format first, so that random texts of strangers are not hashed.
    const found = tokenForm.test(token) ? snapshot.now()?.value.live.get(hash("sha256", token, "hex")) : undefined;
    if (found !== undefined) used.add(found.token_id);
    return found;
  };
  return {
    find,
    lookUp: async (token) => {
      const found = find(token);
      if (found !== undefined || !tokenForm.test(token)) return found;
      const isAsked = await snapshot.again();
      const newer = find(token);
      if (newer === undefined && !isAsked) throw new Unavailable("tokens cannot be checked now: send it again", 2);
      return newer;
    },
    ready: snapshot.ready,
    staleSince: snapshot.staleSince,
    close: async () => {
      clearInterval(timer);
      await snapshot.close();
      await writeUses();
    },
  };
};

const take = (pool: pg.Pool, before: SnapshotAt<Picture> | undefined): Promise<SnapshotAt<Picture>> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows: moment } = await tx.query<{ as_of: UnixMs; revision: number }>(
        "select now() as as_of, coalesce((select max(revision) from tokens), 0) as revision",
      );
      const { as_of: asOf, revision } = moment[0]!;
      if (before !== undefined && before.value.revision === revision) return { asOf, value: before.value };
      // A lower revision than the known one means that the database was restored from a backup,
      // whose content then counts.
      const isNewer = before !== undefined && before.value.revision < revision;
      const { rows } = await tx.query<Token & { hash: string; is_live: boolean }>(sql`
        select token_id, kind, client_id, partner_id, client_ids, client_side, requests_a_minute,
          encode(sha256, 'hex') as hash, revoked_at is null as is_live
        from tokens where revision > ${isNewer ? before.value.revision : 0}`);
      const live = new Map(isNewer ? before.value.live : []);
      for (const { hash, is_live: isLive, ...token } of rows) {
        if (isLive) live.set(hash, token);
        else live.delete(hash);
      }
      return { asOf, value: { revision, live } };
    },
    { role: "tributary_edge", isReadOnly: true },
  );
