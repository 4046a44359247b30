// Opens Postgres for one command, and finds the client that it names. Separate from the log, so
// that simple reads load little.
import type pg from "pg";
import type { Client } from "../../domain/reference/reference.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { UsageError } from "../../infra/runtime/command-errors.ts";
import { within } from "../../infra/runtime/timing/time-limit.ts";
import { findClient } from "../../modules/catalog/clients/find-client.ts";
import { addresses } from "./config.ts";

const LEAVE_MS = 500;

export const withPool = async <T>(
  work: (pool: pg.Pool) => Promise<T>,
  options: Pick<NonNullable<Parameters<typeof openPool>[1]>, "timeoutMs"> = {},
): Promise<T> => {
  const pool = openPool(addresses().postgresUrl, { name: "tributary-ops", max: 2, ...options });
  try {
    return await work(pool);
  } finally {
    // A hanging server does not close its connections.
    await within(LEAVE_MS, pool.end(), "not left").catch(() => undefined);
  }
};

/** Returns the client of a slug or an id. Throws UsageError when there is none. */
export const clientOf = async (pool: pg.Pool, slugOrId: string): Promise<Client> => {
  const client = await findClient(pool, slugOrId);
  if (client === undefined)
    throw new UsageError(`--client: there is no client ${slugOrId}; the demo clients are listed by: tributary status`);
  return client;
};
