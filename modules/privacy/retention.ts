// Reads how long each client keeps its events, and purges the archive accordingly.
import type { Pool } from "pg";
import type { Objects } from "../../infra/objects/objects.ts";
import { withLockOrThrow } from "../../infra/postgres/advisory-lock.ts";
import { transaction } from "../../infra/postgres/sql.ts";
import { type ClientRetention, type PurgeResult, type PurgeSettings, purgeExpired } from "../../sinks/archive/purge.ts";

/** The latest saved retention of every client, archived ones included. */
export const clientRetentions = (pool: Pool): Promise<readonly (ClientRetention & { readonly slug: string })[]> =>
  transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<ClientRetention & { slug: string }>(
          `select distinct on (client_id) client_id as "clientId", slug, retention_months as months
           from clients order by client_id, version desc`,
        )
      ).rows,
    { role: "tributary_reference", isReadOnly: true },
  );

/** Another process is purging. */
export class PurgeBusy extends Error {}

/**
 * Purges under a lock: of two concurrent purges, one could restore records that the other has
 * removed.
 */
export const purgeArchive = async (
  pool: Pool,
  objects: Objects,
  topic: string,
  settings: PurgeSettings,
): Promise<PurgeResult> => {
  const purge = async () => purgeExpired(objects, topic, await clientRetentions(pool), settings);
  return settings.isDry ? purge() : withLockOrThrow(pool, "tributary.archive-purge", () => new PurgeBusy(), purge);
};
