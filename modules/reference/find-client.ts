// Finds a client by what a person types.
import type pg from "pg";
import type { Client } from "../../domain/reference/reference.ts";
import { reference } from "../../domain/reference/reference.ts";
import { openReference } from "./reference.ts";

/** By slug or id, as it is now; undefined when there is none. */
export const findClient = async (pool: pg.Pool, slugOrId: string): Promise<Client | undefined> => {
  const opened = openReference(pool);
  try {
    const now = Date.now();
    const snapshot = await opened.read(reference, now);
    const clientId = /^\d+$/.test(slugOrId) ? Number(slugOrId) : snapshot.clientIdOf(slugOrId);
    return clientId === undefined ? undefined : snapshot.at(now, Number.MAX_SAFE_INTEGER).client(clientId);
  } finally {
    await opened.close();
  }
};
