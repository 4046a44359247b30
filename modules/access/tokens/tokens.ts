// Opaque tokens: makes, limits and revokes them. Only their SHA-256 is stored.

import { createHash, randomBytes } from "node:crypto";
import type pg from "pg";
import { lockUntilCommit } from "../../../infra/postgres/advisory-lock.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

export type TokenKind = "ingest" | "admin" | "upload" | "service";

/**
 * An ingest token gives access to its client, an upload token to its partner, and the other kinds
 * to no tenant.
 */
export interface Token {
  readonly token_id: number;
  readonly kind: TokenKind;
  readonly client_id: number | null;
  readonly partner_id: number | null;
  /** The clients that an upload token is good for; null: every client of its partner. */
  readonly client_ids: readonly number[] | null;
  /**
   * True if the visitor's own browser or app holds the token. Address and user agent of the request
   * are then the visitor's.
   */
  readonly client_side: boolean;
  readonly requests_a_minute: number;
}
export interface NewToken {
  readonly kind: TokenKind;
  readonly label: string;
  readonly client_id?: number;
  readonly partner_id?: number;
  readonly client_ids?: readonly number[] | null;
  readonly client_side?: boolean;
  /** The limit of an ingest token; REQUESTS_A_MINUTE by default. */
  readonly requests_a_minute?: number;
}

/** The default limit of a token (docs/design/contracts.md, "Limits"). */
export const REQUESTS_A_MINUTE = 100;
/** The highest limit, because each accepted request is remembered for a minute. */
const MOST_REQUESTS_A_MINUTE = 10_000;

export const tokenForm = /^trb_(?:ingest|admin|upload|service)_[A-Za-z0-9_-]{43}$/;
const sha256 = (token: string): Buffer => createHash("sha256").update(token).digest();

/** `trb_<kind>_` and 32 random bytes. Shown once; only its hash is stored. */
export const newToken = (kind: TokenKind): string => `trb_${kind}_${randomBytes(32).toString("base64url")}`;

/**
 * Makes a token and saves its hash. If `token` is given, e.g. for a new database, that token is
 * saved; saving it again changes nothing. A new upload token replaces the partner's. Throws if an
 * ingest token names no client, an upload token names no partner, the given token was revoked, or
 * requests_a_minute is not 1 to 10,000.
 */
export const createToken = (
  pool: pg.Pool,
  wanted: NewToken,
  token = newToken(wanted.kind),
): Promise<{ token_id: number; token: string }> =>
  transaction(pool, null, (tx) => createTokenWithin(tx, wanted, token));

/** Does the same inside the caller's transaction, which must be short because others wait. */
export const createTokenWithin = async (
  tx: pg.PoolClient,
  wanted: NewToken,
  token = newToken(wanted.kind),
): Promise<{ token_id: number; token: string }> => {
  refuseMismatch(wanted, token);
  return within(tx, async (revision) => {
    const known = await tx.query<{ token_id: number; revoked_at: UnixMs | null }>(
      sql`select token_id, revoked_at from tokens where sha256 = ${sha256(token)}`,
    );
    const [found] = known.rows;
    if (found !== undefined && found.revoked_at !== null)
      throw new Error(`the token "${wanted.label}" was revoked: make a new one`);
    if (found !== undefined) return { token_id: found.token_id, token };
    if (wanted.kind === "upload")
      await tx.query(sql`update tokens set revoked_at = clock_timestamp(), revision = nextval('token_revisions')
        where kind = 'upload' and partner_id = ${wanted.partner_id} and revoked_at is null`);
    const { rows } = await tx.query<{ token_id: number }>(sql`
      insert into tokens (kind, sha256, client_id, partner_id, client_ids, client_side, requests_a_minute,
        label, prefix, revision)
      values (${wanted.kind}, ${sha256(token)}, ${wanted.client_id ?? null}, ${wanted.partner_id ?? null},
        ${wanted.client_ids ?? null}, ${wanted.client_side ?? false}, ${wanted.requests_a_minute ?? REQUESTS_A_MINUTE},
        ${wanted.label}, ${prefixOf(token)}, ${revision}) returning token_id`);
    return { token_id: rows[0]!.token_id, token };
  });
};

/** The part of a token that people recognise it by. It shows 24 of the token's 256 bits. */
export const prefixOf = (token: string): string => token.slice(0, token.indexOf("_", 4) + 5);

const refuseMismatch = (wanted: NewToken, token: string): void => {
  if ((wanted.kind === "ingest") !== (wanted.client_id !== undefined))
    throw new Error(
      wanted.kind === "ingest"
        ? "client_id: an ingest token belongs to a client"
        : `client_id: a token of kind ${wanted.kind} belongs to no client`,
    );
  if ((wanted.kind === "upload") !== (wanted.partner_id !== undefined))
    throw new Error(
      wanted.kind === "upload"
        ? "partner_id: an upload token belongs to a partner"
        : `partner_id: a token of kind ${wanted.kind} belongs to no partner`,
    );
  if (wanted.requests_a_minute !== undefined) {
    if (wanted.kind !== "ingest") throw new Error("requests_a_minute: only an ingest token has a limit of its own");
    refuseLimit(wanted.requests_a_minute);
  }
  if (!tokenForm.test(token) || !token.startsWith(`trb_${wanted.kind}_`))
    throw new Error(`token: not of the form trb_${wanted.kind}_<32 random bytes, base64url>`);
};

const refuseLimit = (requests: number): void => {
  if (!Number.isInteger(requests) || requests < 1 || requests > MOST_REQUESTS_A_MINUTE)
    throw new Error("requests_a_minute: must be a whole number from 1 to 10,000");
};

/**
 * Changes the limit of a live ingest token in every process within a second. Returns false if there
 * is none with this id. Throws if the limit is not 1 to 10,000.
 */
export const limitToken = (pool: pg.Pool, tokenId: number, requests: number): Promise<boolean> =>
  transaction(pool, null, (tx) => limitTokenWithin(tx, tokenId, requests));

/** Does the same inside the caller's transaction, which must be short because others wait. */
export const limitTokenWithin = async (tx: pg.PoolClient, tokenId: number, requests: number): Promise<boolean> => {
  refuseLimit(requests);
  return within(tx, async (revision) => {
    const { rowCount } = await tx.query(
      sql`update tokens set requests_a_minute = ${requests}, revision = ${revision} where token_id = ${tokenId}
        and kind = 'ingest' and revoked_at is null`,
    );
    return rowCount === 1;
  });
};

/**
 * Makes a new service token with this label and revokes the older ones within a second. For a
 * process that keeps its token only in memory and makes a new one at each start. A label belongs to
 * one process.
 */
export const renewServiceToken = (pool: pg.Pool, label: string): Promise<string> =>
  writing(pool, async (tx, revision) => {
    const token = newToken("service");
    await tx.query(sql`update tokens set revoked_at = clock_timestamp(), revision = nextval('token_revisions')
      where kind = 'service' and label = ${label} and revoked_at is null`);
    await tx.query(
      sql`insert into tokens (kind, sha256, label, revision)
        values ('service', ${sha256(token)}, ${label}, ${revision})`,
    );
    return token;
  });

/**
 * Revokes a token in every process within a second. Returns false if there is none with this id, or
 * if it is revoked already.
 */
export const revokeToken = (pool: pg.Pool, tokenId: number): Promise<boolean> =>
  transaction(pool, null, (tx) => revokeTokenWithin(tx, tokenId));

/** Does the same inside the caller's transaction, which must be short because others wait. */
export const revokeTokenWithin = (tx: pg.PoolClient, tokenId: number): Promise<boolean> =>
  within(tx, async (revision) => {
    const { rowCount } = await tx.query(
      sql`update tokens set revoked_at = clock_timestamp(), revision = ${revision} where token_id = ${tokenId}
        and revoked_at is null`,
    );
    return rowCount === 1;
  });

/**
 * Revokes all ingest tokens of a client inside the caller's transaction, which must be short
 * because others wait. Returns their number.
 */
export const revokeTokensOf = async (tx: pg.PoolClient, clientId: number): Promise<number> => {
  const { rowCount } = await within(tx, () =>
    tx.query(sql`
      update tokens set revoked_at = clock_timestamp(), revision = nextval('token_revisions')
      where kind = 'ingest' and client_id = ${clientId} and revoked_at is null`),
  );
  return rowCount ?? 0;
};

const writing = <T>(pool: pg.Pool, work: (tx: pg.PoolClient, revision: number) => Promise<T>): Promise<T> =>
  transaction(pool, null, (tx) => within(tx, (revision) => work(tx, revision)));

/**
 * Writers take turns until their commit, so a reader that sees a revision has seen all lower ones.
 */
const within = async <T>(tx: pg.PoolClient, work: (revision: number) => Promise<T>): Promise<T> => {
  await lockUntilCommit(tx, "tributary.tokens");
  await tx.query("set local role tributary_tokens");
  const { rows } = await tx.query<{ revision: number }>("select nextval('token_revisions')::int as revision");
  const result = await work(rows[0]!.revision);
  await tx.query("set local role none");
  return result;
};
