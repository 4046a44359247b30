// Keeps the subscription plan of each client in memory, for the limits of a process.
import type pg from "pg";
import { keepSnapshot } from "../../../infra/postgres/snapshot.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";

const POLL_MS = 10_000;

export interface Plans {
  /** Undefined for an unknown client, and until the first load. */
  readonly of: (clientId: number) => string | undefined;
  readonly close: () => Promise<void>;
}

/** Polls until it is closed; plans are at most ten seconds old. */
export const openPlans = (pool: pg.Pool, options: { readonly onError?: (error: unknown) => void }): Plans => {
  const snapshot = keepSnapshot(() => take(pool), { pollMs: POLL_MS, onError: options.onError });
  return { of: (clientId) => snapshot.now()?.value.get(clientId), close: snapshot.close };
};

const take = (pool: pg.Pool) =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<{ client_id: number; plan: string; as_of: UnixMs }>(
        "select distinct on (client_id) client_id, plan, now() as as_of from clients order by client_id, version desc",
      );
      return {
        asOf: rows[0]?.as_of ?? 0,
        value: new Map(rows.map(({ client_id, plan }) => [client_id, plan])) as ReadonlyMap<number, string>,
      };
    },
    { role: "tributary_reference", isReadOnly: true },
  );
