// Finds a client by what a person types.
import type pg from "pg";
import { UsageError } from "../../apps/cli/csv-events.ts";
import type { Client } from "../../domain/reference/reference.ts";
import { reference } from "../../domain/reference/reference.ts";
import { openReference } from "./reference.ts";

/** By slug or id, as it is now. Throws UsageError that lists the clients there are. */
export const clientOf = async (pool: pg.Pool, slugOrId: string): Promise<Client> => {
  const opened = openReference(pool);
  try {
    const now = Date.now();
    const snapshot = await opened.read(reference, now);
    const at = snapshot.at(now, Number.MAX_SAFE_INTEGER);
    const client = at.client(/^\d+$/.test(slugOrId) ? Number(slugOrId) : (snapshot.clientIdOf(slugOrId) ?? -1));
    if (client === undefined)
      throw new UsageError(
        `--client: there is no client ${slugOrId}; the demo clients are listed by: tributary status`,
      );
    return client;
  } finally {
    await opened.close();
  }
};
