// apps/ops/reference.ts - finds a client by what a person types.
import type pg from "pg";
import type { Client } from "../../processors/reference.ts";
import { reference } from "../../processors/reference.ts";
import { openReference } from "../../sinks/postgres/reference.ts";
import { UsageError } from "./csv-events.ts";

/** By slug or id, as it is now. Throws UsageError that lists the clients there are. */
export const clientOf = async (pool: pg.Pool, slugOrId: string): Promise<Client> => {
  const opened = openReference(pool);
  try {
    const now = Date.now();
    const snapshot = await opened.read(reference, now);
    const at = snapshot.at(now, Number.MAX_SAFE_INTEGER);
    const client = at.client(/^\d+$/.test(slugOrId) ? Number(slugOrId) : (snapshot.clientIdOf(slugOrId) ?? -1));
    if (client === undefined)
      throw new UsageError(`--client: there is no client ${slugOrId}; the demo clients are listed by: tributary status`);
    return client;
  } finally {
    await opened.close();
  }
};
