// The list of erased subjects. It is written before anything is erased, and every process that
// writes to a store keeps it in memory.

import type { Pool, PoolClient } from "pg";
import { type Hides, hidesOf, type SubjectKind, type SuppressedSubject } from "../../domain/personal/suppression.ts";
import { lockUntilCommit } from "../../infra/postgres/advisory-lock.ts";
import { keepSnapshot, type SnapshotAt } from "../../infra/postgres/snapshot.ts";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import type { UnixMs } from "../../stream/flow.ts";
import type { WithholdFilter } from "../../stream/ports.ts";
import { eraseRejected } from "../intake/imports/erase-rejected.ts";
import { eraseLeads } from "../intake/leads/erase.ts";
import { eraseRecordings } from "../intake/recordings/erase-recordings.ts";
import { erasePayloads } from "../intake/sources/payloads.ts";
import { eraseIdentityLinks } from "./persons/erase-identity-links.ts";

/**
 * An erasure waits this long between the commit of its rows and its first delete. By then every
 * writer has the rows, or writes nothing.
 */
export const knownWithinMs = 10_000;
/** A copy of the list that is older than this is read again before use. */
const FRESH_MS = 5_000;
const POLL_MS = 1_000;

/**
 * Adds subjects to the list, or updates the time of a listed one; subjects are never removed.
 * In the same transaction it deletes their identity edges and the keys of their leads and
 * recordings; for an e-mail or phone, the keys of the recordings of every device that showed it.
 * Rejected rows of imports follow within minutes and are hidden meanwhile.
 * Resolves after the commit; every writer knows the subjects within `knownWithinMs` from then.
 * `subject`: one of those that `subjectsOf` of domain/personal/suppression.ts returns.
 */
export const suppress = async (
  pool: Pool,
  clientId: number,
  subjects: readonly ListedSubject[],
  why: ErasureReason,
): Promise<void> => {
  await transaction(pool, [clientId], (tx) => suppressWithin(tx, clientId, subjects, why));
};

export interface ListedSubject {
  readonly kind: SubjectKind;
  readonly subject: string;
  /** Of a device that was found by an e-mail or phone of its visitor: that subject. */
  readonly foundBy?: string;
}
export interface ErasureReason {
  readonly since: UnixMs;
  readonly reason: string;
  readonly actor: string;
}

/** The same inside a transaction that sees the client. */
export const suppressWithin = async (
  tx: PoolClient,
  clientId: number,
  subjects: readonly ListedSubject[],
  { since, reason, actor }: ErasureReason,
): Promise<void> => {
  await lockUntilCommit(tx, "tributary.suppressions");
  for (const { kind, subject, foundBy = null } of subjects)
    await tx.query(sql`
      insert into suppressions as kept (client_id, kind, subject, since, reason, actor, revision, found_by)
      values (${clientId}, ${kind}, ${subject}, to_timestamp(${since} / 1000.0), ${reason}, ${actor},
        nextval('suppression_revisions'), ${foundBy})
      on conflict (client_id, kind, subject) do update set
        since = greatest(kept.since, excluded.since), reason = excluded.reason, actor = excluded.actor,
        revision = excluded.revision, found_by = coalesce(excluded.found_by, kept.found_by)`);
  await eraseLeads(tx, clientId, subjects);
  const devices = await eraseIdentityLinks(tx, clientId, subjects);
  await eraseRecordings(tx, clientId, devices);
  await erasePayloads(tx, clientId);
  await eraseRejected(tx, clientId);
};

/**
 * The list is unavailable, so nothing may be written. The error is transient: it ends when the
 * database is back.
 */
class SuppressionsUnknown extends Error {
  readonly verdict = "transient";
  constructor(cause: unknown) {
    super("the list of erased subjects cannot be read, so nothing is written", { cause });
    this.name = "SuppressionsUnknown";
  }
}

interface Picture {
  readonly revision: number;
  readonly subjects: ReadonlyMap<string, SuppressedSubject>;
  readonly hides: Hides | undefined;
  /** The time on this process's clock before the query. */
  readonly askedAt: number;
}

export interface Suppressions {
  /**
   * Returns the test for erased subjects; undefined when no subject was erased. Rejects with a
   * transient error while the list is unavailable. With `isNow` the test includes everything that
   * was committed before the call.
   */
  readonly hides: (isNow?: "now") => Promise<Hides | undefined>;
  readonly close: () => Promise<void>;
}

/** Keeps the list in memory and checks once a second whether it has grown. */
export const openSuppressions = (
  pool: Pool,
  options: { readonly onError?: (error: unknown) => void } = {},
): Suppressions => {
  let failure: unknown;
  const snapshot = keepSnapshot<Picture>((before) => take(pool, before), {
    pollMs: POLL_MS,
    onError: (error) => {
      failure = error;
      options.onError?.(error);
    },
  });
  const ageOf = ({ value }: SnapshotAt<Picture>): number => performance.now() - value.askedAt;
  return {
    hides: async (isNow) => {
      const oldest = performance.now() - (isNow === "now" ? 0 : FRESH_MS);
      let taken = snapshot.now();
      // A query in progress may have started before the required time; the next one has not.
      for (let tries = 0; tries < 2 && (taken === undefined || taken.value.askedAt < oldest); tries += 1)
        taken = await snapshot.upTo(taken === undefined ? 0 : taken.asOf + 1);
      const isKnown =
        taken !== undefined && (isNow === "now" ? taken.value.askedAt >= oldest : ageOf(taken) <= knownWithinMs);
      if (taken === undefined || !isKnown) throw new SuppressionsUnknown(failure);
      return taken.value.hides;
    },
    close: snapshot.close,
  };
};

/** Returns the list in the form that a sink's runner uses. */
export const withholdsOf = async ({ hides }: Suppressions): Promise<WithholdFilter | undefined> => {
  const isHidden = await hides();
  return isHidden && ((event, read) => isHidden(event, read.topic));
};

const take = (pool: Pool, before: SnapshotAt<Picture> | undefined): Promise<SnapshotAt<Picture>> => {
  const askedAt = performance.now();
  return transaction(
    pool,
    null,
    async (tx) => {
      const { rows: moment } = await tx.query<{ as_of: UnixMs; revision: number }>(
        "select now() as as_of, coalesce((select max(revision) from suppressions), 0) as revision",
      );
      const { as_of: asOf, revision } = moment[0]!;
      if (before !== undefined && before.value.revision === revision)
        return { asOf, value: { ...before.value, askedAt } };
      // A revision below the former one means that the database was restored from a backup.
      // Formerly listed subjects then stay hidden too.
      const isNewer = before !== undefined && before.value.revision < revision;
      const { rows } = await tx.query<SuppressedSubject>(
        sql`select client_id, kind, subject, since from suppressions
          where revision > ${isNewer ? before.value.revision : 0}`,
      );
      const subjects = new Map(before?.value.subjects);
      for (const row of rows) subjects.set(`${row.client_id}/${row.kind}/${row.subject}`, row);
      return { asOf, value: { revision, subjects, hides: hidesOf([...subjects.values()]), askedAt } };
    },
    { role: "tributary_reference", isReadOnly: true },
  );
};
