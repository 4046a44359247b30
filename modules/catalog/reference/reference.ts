// The view "reference" of every process: all rows of reference data in memory, complete up to a
// known time.
import type pg from "pg";
import type { Reference, ReferenceRows } from "../../../domain/reference/reference.ts";
import { referenceOf } from "../../../domain/reference/snapshot.ts";
import { keepSnapshot, type SnapshotAt } from "../../../infra/postgres/snapshot.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import type { Read, UnixMs } from "../../../stream/flow.ts";
import { joined, noRows, rowsAfter } from "./rows.ts";

/** Returns a view that holds everything recorded before `asOf`. */
export type Source<T = unknown> = (asOf: UnixMs) => Promise<T>;

/**
 * Combines sources into one reader, by name of view: `readOf({ reference: source, places: () =>
 * Promise.resolve(places) })`. Throws for a name without a source.
 */
export const readOf = (sources: Readonly<Record<string, Source>>): Read => {
  return async (view, asOf) => {
    const source = Object.hasOwn(sources, view.view) ? sources[view.view] : undefined;
    if (source === undefined)
      throw new Error(`no view is named ${view.view}; this process serves ${Object.keys(sources).join(", ")}`);
    return (await source(asOf)) as never;
  };
};

export interface OpenReference {
  /** The source for `readOf`, together with the other views of the app. */
  readonly source: Source<Reference>;
  /** Serves only the view "reference". */
  readonly read: Read;
  /** The current snapshot, at most one poll old; undefined until the first load. */
  readonly reference: () => Reference | undefined;
  /**
   * Resolves with true once changes that were committed before the call are in the snapshot, and
   * with false if Postgres cannot be asked.
   */
  readonly again: () => Promise<boolean>;
  /** While Postgres is away: the database time of the last load. */
  readonly staleSince: () => UnixMs | undefined;
  /** Resolves with the first load, however long Postgres is away. */
  readonly ready: Promise<void>;
  readonly close: () => Promise<void>;
}

interface Picture {
  readonly change: number;
  readonly rows: ReferenceRows;
  readonly reference: Reference;
}

/**
 * A commit takes at most 1 s after its row got `recorded_at`, which lies 2 s ahead. So a snapshot
 * taken at database time T holds everything recorded up to T + 1 s, and an event needs a snapshot
 * that was taken at most 1 s before its receipt.
 *
 * stamped L      committed <= L + 1 s      recorded_at = L + 2 s <= received R      snapshot T >= R
 * - 1 s >= L + 1 s: it has the row
 */
const allowanceMs = 1_000;

/**
 * Loads every row, then looks for new changes twice a second and loads them. Uses only connections
 * of `pool`; close it before the pool.
 */
export const openReference = (
  pool: pg.Pool,
  options: { readonly pollMs?: number; readonly onError?: (error: unknown) => void } = {},
): OpenReference => {
  const snapshot = keepSnapshot<Picture>((before) => take(pool, before), {
    pollMs: options.pollMs ?? 500,
    onError: options.onError,
  });
  const source: Source<Reference> = async (asOf) => (await snapshot.upTo(asOf - allowanceMs)).value.reference;
  return {
    source,
    read: readOf({ reference: source }),
    reference: () => snapshot.now()?.value.reference,
    again: snapshot.again,
    staleSince: snapshot.staleSince,
    ready: snapshot.ready,
    close: snapshot.close,
  };
};

const take = async (pool: pg.Pool, before: SnapshotAt<Picture> | undefined): Promise<SnapshotAt<Picture>> => {
  // now() is the time when the statement arrived, before it read, so it covers everything committed
  // by then.
  const { rows: found } = await pool.query<{ as_of: UnixMs; change: number }>(
    "select now() as as_of, coalesce((select max(change_id) from reference_changes), 0) as change",
  );
  const newest = found[0]!;
  if (before !== undefined && before.value.change === newest.change) {
    const reference = { ...before.value.reference, asOf: newest.as_of };
    return { asOf: newest.as_of, value: { ...before.value, reference } };
  }
  // Fewer changes than known mean that the database was restored from a backup, whose content then
  // counts.
  const known =
    before === undefined || before.value.change > newest.change ? { change: 0, rows: noRows } : before.value;
  return transaction(
    pool,
    null,
    async (tx) => {
      const { rows: moment } = await tx.query<{ as_of: UnixMs; change: number }>(
        "select now() as as_of, coalesce(max(change_id), 0) as change from reference_changes",
      );
      const { as_of: asOf, change } = moment[0]!;
      const rows = joined(known.rows, await rowsAfter(tx, known.change));
      return { asOf, value: { change, rows, reference: referenceOf(rows, asOf) } };
    },
    { role: "tributary_reference", isReadOnly: true },
  );
};
