// Keeps the pixel settings of all clients in memory for the pixel host, so that no answer waits for
// Postgres.
import type pg from "pg";
import { keepSnapshot, type SnapshotAt } from "../../../infra/postgres/snapshot.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { defaultPixel, type PixelConfig } from "./pixel-config.ts";

/** Jurisdiction and default consent are in the client's row, which the reference data holds. */
export type PixelSettings = Omit<PixelConfig, "jurisdiction" | "consent_default">;

export interface OpenPixels {
  /** The settings of a client, defaults included; undefined until the first load. */
  readonly settingsOf: (clientId: number) => PixelSettings | undefined;
  /** Resolves with the first load, however long Postgres is away. */
  readonly ready: Promise<void>;
  readonly close: () => Promise<void>;
}

interface Picture {
  readonly revision: string;
  readonly settings: ReadonlyMap<number, PixelSettings>;
}

/**
 * A change takes effect within a second. While Postgres is away, the newest snapshot is used. Close
 * it before its pool.
 */
export const openPixels = (
  pool: pg.Pool,
  { pollMs = 1_000, onError }: { readonly pollMs?: number; readonly onError?: (error: unknown) => void } = {},
): OpenPixels => {
  const snapshot = keepSnapshot<Picture>((before) => take(pool, before), { pollMs, onError });
  return {
    settingsOf: (clientId) => {
      const picture = snapshot.now();
      return picture === undefined ? undefined : (picture.value.settings.get(clientId) ?? defaultPixel);
    },
    ready: snapshot.ready,
    close: snapshot.close,
  };
};

/**
 * Each change raises the version of one row, so the number of rows and the sum of versions show
 * whether anything changed.
 */
const take = (pool: pg.Pool, before: SnapshotAt<Picture> | undefined): Promise<SnapshotAt<Picture>> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows: moment } = await tx.query<{ as_of: UnixMs; revision: string }>(
        "select now() as as_of, count(*) || ':' || coalesce(sum(version), 0) as revision from pixel_configs",
      );
      const { as_of: asOf, revision } = moment[0]!;
      if (before?.value.revision === revision) return { asOf, value: before.value };
      const { rows } = await tx.query<PixelSettings & { readonly client_id: number }>(
        `select client_id, allowed_domains, tracked_events, replay_enabled, replay_sample_rate, consent_replay,
          tracking_type, auto_signals from pixel_configs`,
      );
      return { asOf, value: { revision, settings: new Map(rows.map(({ client_id, ...row }) => [client_id, row])) } };
    },
    { role: "tributary_reference", isReadOnly: true },
  );
