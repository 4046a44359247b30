// The reference data as it is now, and the client that a person types.
import type pg from "pg";
import type { Client, ReferenceAt } from "../../../domain/reference/reference.ts";
import { reference } from "../../../domain/reference/reference.ts";
import { openReference } from "../reference/reference.ts";

/** Of every tenant, as known and in force at this moment; `clientIdOf` a slug. */
export const referenceNow = async (
  pool: pg.Pool,
): Promise<ReferenceAt & { readonly clientIdOf: (slug: string) => number | undefined }> => {
  const opened = openReference(pool);
  try {
    const now = Date.now();
    const snapshot = await opened.read(reference, now);
    return Object.assign(snapshot.at(now, Number.MAX_SAFE_INTEGER), { clientIdOf: snapshot.clientIdOf });
  } finally {
    await opened.close();
  }
};

/** By slug or id, as it is now; undefined when there is none. */
export const findClient = async (pool: pg.Pool, slugOrId: string): Promise<Client | undefined> => {
  const known = await referenceNow(pool);
  const clientId = /^\d+$/.test(slugOrId) ? Number(slugOrId) : known.clientIdOf(slugOrId);
  return clientId === undefined ? undefined : known.client(clientId);
};
