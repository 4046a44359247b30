// Reads the current reference data, and finds the client that a person names.
import type pg from "pg";
import type { Client, ReferenceAt } from "../../../domain/reference/reference.ts";
import { reference } from "../../../domain/reference/reference.ts";
import { openReference } from "../reference/reference.ts";

/** The reference data of all tenants that is known and valid now; `clientIdOf` looks up a slug. */
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

/** Finds a client by slug or id; undefined if there is none. */
export const findClient = async (pool: pg.Pool, slugOrId: string): Promise<Client | undefined> => {
  const known = await referenceNow(pool);
  const clientId = /^\d+$/.test(slugOrId) ? Number(slugOrId) : known.clientIdOf(slugOrId);
  return clientId === undefined ? undefined : known.client(clientId);
};
