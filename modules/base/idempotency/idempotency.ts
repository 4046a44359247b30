// Keeps the first answer to an Idempotency-Key for 7 days. A repeated request gets the same answer
// and does nothing.
import { createHash } from "node:crypto";
import pg from "pg";
import { sql, transaction } from "../../../infra/postgres/sql.ts";

export interface KeptAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly text: string;
}
export interface KeyOfRequest {
  /** The owner of the key, e.g. user:7. Different owners may use equal keys. */
  readonly owner: string;
  readonly key: string;
  /** Method, path and body of the request. */
  readonly request: readonly string[];
}
const WAIT_MS = 50;

const digest = (request: readonly string[]): Buffer => createHash("sha256").update(JSON.stringify(request)).digest();

/**
 * Must be the first statement of a transaction. Claims the key for it, or returns the earlier
 * answer, "other" if the key belongs to another request, or "busy" if another transaction holds it.
 * The caller must then roll back and try again.
 */
export const claimKey = async (
  tx: pg.PoolClient,
  { owner, key, request }: KeyOfRequest,
): Promise<KeptAnswer | "mine" | "other" | "busy"> => {
  try {
    await tx.query(
      sql`select set_config('app.owner', ${owner}, true), set_config('lock_timeout', ${`${WAIT_MS}ms`}, true)`,
    );
    const { rowCount } = await tx.query(sql`
      insert into idempotency_keys (owner, key, request) values (${owner}, ${key}, ${digest(request)})
      on conflict do nothing`);
    await tx.query("set local lock_timeout to default");
    if (rowCount === 1) return "mine";
  } catch (error) {
    // lock_not_available: another transaction has written the row and has not committed yet.
    if (error instanceof pg.DatabaseError && error.code === "55P03") return "busy";
    throw error;
  }
  const { rows } = await tx.query<KeptAnswer & { request: Buffer }>(sql`
    select request, status, headers, answer as text from idempotency_keys where owner = ${owner} and key = ${key}`);
  const [found] = rows;
  if (found === undefined) return "busy";
  const { request: first, ...answer } = found;
  return first.equals(digest(request)) ? answer : "other";
};

/** Must run before the commit of the transaction that claimed the key. */
export const keepAnswer = async (
  tx: pg.PoolClient,
  { owner, key }: KeyOfRequest,
  { status, headers, text }: KeptAnswer,
): Promise<void> => {
  await tx.query(sql`
    update idempotency_keys set status = ${status}, headers = ${JSON.stringify(headers)}::jsonb, answer = ${text}
    where owner = ${owner} and key = ${key}`);
};

/** Deletes keys older than 7 days and returns their number. */
export const forgetKeys = (pool: pg.Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (await tx.query("delete from idempotency_keys where created_at < clock_timestamp() - interval '7 days'"))
        .rowCount ?? 0,
    { role: "tributary_keeper" },
  );
