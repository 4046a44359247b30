// The list of erased subjects: written before anything is erased, and kept in memory by every
// process that writes to a store.

import type { Pool } from "pg";
import { type Hides, hidesOf, type SubjectKind, type SuppressedSubject } from "../../domain/personal/suppression.ts";
import { lockUntilCommit } from "../../infra/postgres/advisory-lock.ts";
import { keepSnapshot, type Taken } from "../../infra/postgres/snapshot.ts";
import { sql, transaction } from "../../infra/postgres/sql.ts";
import type { UnixMs } from "../../stream/flow.ts";
import type { Withholds } from "../../stream/ports.ts";
import { eraseRejected } from "../intake/imports/erase-rejected.ts";
import { eraseLeads } from "../intake/leads/erase.ts";
import { eraseRecordings } from "../intake/recordings/erase-recordings.ts";
import { erasePayloads } from "../intake/sources/payloads.ts";
import { eraseEdges } from "./persons/erase-edges.ts";

/**
 * An erasure waits this long between the commit of its rows and its first delete: then every writer
 * has them, or writes nothing.
 */
const knownWithinMs = 10_000;
/** A picture of this age is read again before it is used. */
const FRESH_MS = 5_000;
const POLL_MS = 1_000;

/**
 * Adds subjects to the list, or moves the moment of one that is there on; none is ever taken off.
 * Their identity edges and the keys of their leads and recordings go with it, at once; of an e-mail
 * or phone the recordings of every device that showed it. Rejected rows of imports follow within
 * minutes, and are not shown meanwhile.
 * Resolves when it is committed: from then on every writer knows it within `knownWithinMs`.
 * `subject`: each of those that `subjectsOf` of domain/personal/suppression.ts makes.
 */
export const suppress = async (
  pool: Pool,
  clientId: number,
  subjects: readonly { readonly kind: SubjectKind; readonly subject: string }[],
  { since, reason, actor }: { readonly since: UnixMs; readonly reason: string; readonly actor: string },
): Promise<void> => {
  await transaction(pool, [clientId], async (tx) => {
    await lockUntilCommit(tx, "tributary.suppressions");
    for (const { kind, subject } of subjects)
      await tx.query(sql`
        insert into suppressions as kept (client_id, kind, subject, since, reason, actor, revision)
        values (${clientId}, ${kind}, ${subject}, to_timestamp(${since} / 1000.0), ${reason}, ${actor},
          nextval('suppression_revisions'))
        on conflict (client_id, kind, subject) do update set
          since = greatest(kept.since, excluded.since), reason = excluded.reason, actor = excluded.actor,
          revision = excluded.revision`);
    await eraseLeads(tx, clientId, subjects);
    const devices = await eraseEdges(tx, clientId, subjects);
    await eraseRecordings(tx, clientId, devices);
    await erasePayloads(tx, clientId);
    await eraseRejected(tx, clientId);
  });
};

/** Who was erased is unknown now, so nothing may be written; it heals with the database. */
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
  /** On the clock of this process, before the database was asked. */
  readonly askedAt: number;
}

export interface Suppressions {
  /**
   * What is to be hidden now: undefined when no subject was erased. Rejects with a transient error
   * while that is unknown. With `isNow` everything that was committed before the call is known.
   */
  readonly hides: (isNow?: "now") => Promise<Hides | undefined>;
  readonly close: () => Promise<void>;
}

/** Keeps the list in memory, asking once a second whether it has grown. */
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
  const ageOf = ({ value }: Taken<Picture>): number => performance.now() - value.askedAt;
  return {
    hides: async (isNow) => {
      const oldest = performance.now() - (isNow === "now" ? 0 : FRESH_MS);
      let taken = snapshot.now();
      // A question under way may have been asked too early; the one after it was not.
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

/** The list as a sink's runner asks for it. */
export const withholdsOf = async ({ hides }: Suppressions): Promise<Withholds | undefined> => {
  const isHidden = await hides();
  return isHidden && ((event, read) => isHidden(event, read.topic));
};

const take = (pool: Pool, before: Taken<Picture> | undefined): Promise<Taken<Picture>> => {
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
      // A lower revision than the known one: the database was restored from a backup. What was
      // known of before stays hidden as well.
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
