// The secret that signs a client's lead pushes, readable under the role tributary_secrets alone.
import { randomBytes } from "node:crypto";
import type pg from "pg";
import { sql, transaction } from "../../infra/postgres/sql.ts";

/** 32 random bytes in hex, of which the text itself is the HMAC key. */
export const newClientSecret = (): string => randomBytes(32).toString("hex");

/** Replaces the client's secret; the old one is good for nothing from then on. */
export const saveClientSecret = async (pool: pg.Pool, clientId: number, secret: string): Promise<void> => {
  await transaction(
    pool,
    [clientId],
    (tx) =>
      tx.query(sql`insert into client_secrets (client_id, hmac_secret) values (${clientId}, ${secret})
      on conflict (client_id) do update set hmac_secret = excluded.hmac_secret, updated_at = clock_timestamp()`),
    { role: "tributary_secrets" },
  );
};

/** The client's secret; undefined when it has none. */
export const clientSecretOf = (pool: pg.Pool, clientId: number): Promise<string | undefined> =>
  transaction(
    pool,
    [clientId],
    async (tx) =>
      (
        await tx.query<{ hmac_secret: string }>(
          sql`select hmac_secret from client_secrets where client_id = ${clientId}`,
        )
      ).rows[0]?.hmac_secret,
    { role: "tributary_secrets", isReadOnly: true },
  );
