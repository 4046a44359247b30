// Removes erased people from the stored rejected rows. An erasure marks the imports of its client,
// and the importer rewrites their error files.
import type { Pool, PoolClient } from "pg";
import type { Identify } from "../../../domain/personal/identify.ts";
import { type SubjectKind, subjectsOf } from "../../../domain/personal/suppression.ts";
import type { Objects } from "../../../infra/objects/objects.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Columns, Row, UploadColumn } from "../../../processors/admit/upload/csv-row.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import { type RejectedRow, rejectedObjects, rejectedText } from "./import-file.ts";

const KINDS: Readonly<Partial<Record<UploadColumn, SubjectKind>>> = {
  did: "did",
  order_id: "order_id",
  email_sha256: "email",
};
/** A telephone number as people write it, in any column. */
const PHONE = /^\+?[\d ().-]{7,24}$/;
const LONGEST = 256;

/** Returns the people that a row names, as keyed hashes like those of erased subjects. */
export const subjectsIn = ({ cells }: Row, { names }: Columns, identify: Identify): readonly string[] => {
  const subjects = cells.flatMap((cell, n) => {
    const text = cell.trim();
    if (text === "" || text.length > LONGEST) return [];
    const kind = names[n] == null ? (PHONE.test(text) ? "phone" : undefined) : KINDS[names[n]!];
    return kind === undefined ? [] : subjectsOf(kind, text, identify);
  });
  return [...new Set(subjects)];
};

/** Runs inside the transaction of an erasure, which sees the client. */
export const eraseRejected = async (tx: PoolClient, clientId: number): Promise<void> => {
  await tx.query(sql`update imports set errors_erase_at = clock_timestamp()
    where client_id = any (${[clientId]}::int[]) and errors_removed_at is null`);
};

/** The time of erasure of each erased subject of a client. */
export type ErasedSubjects = ReadonlyMap<string, UnixMs>;

export const erasedSubjects = (pool: Pool, clientId: number): Promise<ErasedSubjects> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<{ subject: string; since: UnixMs }>(sql`
        select subject, since from suppressions where client_id = ${clientId}`);
      return new Map(rows.map(({ subject, since }) => [subject, since]));
    },
    { role: "tributary_reference", isReadOnly: true },
  );

const HASHES = /[0-9a-f]{64}/g;

/** E-mails are in the row as hashes; an unreadable row may name anyone. */
const isOfErased = ({ row, at, subjects }: RejectedRow, erased: ErasedSubjects): boolean => {
  const wasErased = (subject: string): boolean => at <= (erased.get(subject) ?? -1);
  if (subjects === null) return [...erased.values()].some((since) => at <= since);
  return subjects.some(wasErased) || (row.match(HASHES) ?? []).some(wasErased);
};

/**
 * The rejected rows that may be shown. Rows of erased people are hidden until the importer's next
 * round removes them.
 */
export async function* rowsShown(
  objects: Pick<Objects, "get" | "list">,
  importId: string,
  erased: ErasedSubjects,
): AsyncGenerator<readonly RejectedRow[], void> {
  for await (const { rows } of rejectedObjects(objects, importId)) yield rows.filter((row) => !isOfErased(row, erased));
}

/**
 * More than any client has. An import that is still running stays marked, and must not block the
 * others.
 */
const MOST = 10_000;

/**
 * Rewrites the imports that an erasure has marked. A running import is rewritten again after its
 * end.
 */
export const rewriteRejected = async ({
  pool,
  objects,
}: {
  readonly pool: Pool;
  readonly objects: Pick<Objects, "get" | "put" | "list" | "delete">;
}): Promise<void> => {
  const marked = await transaction(
    pool,
    null,
    async (tx) =>
      (
        await tx.query<{ import_id: string; client_id: number; marked: string; has_ended: boolean }>(sql`
          select import_id, client_id, errors_erase_at::text as marked, finished_at is not null as has_ended
          from imports where errors_erase_at is not null order by errors_erase_at limit ${MOST}`)
      ).rows,
    { role: "tributary_upload" },
  );
  for (const { import_id, client_id, marked: at, has_ended } of marked) {
    const erased = await erasedSubjects(pool, client_id);
    for await (const { key, rows } of rejectedObjects(objects, import_id)) {
      const left = rows.filter((row) => !isOfErased(row, erased));
      if (left.length === 0) await objects.delete(key);
      else if (left.length < rows.length) await objects.put(key, rejectedText(left));
    }
    // The mark stays if another erasure has set it again meanwhile.
    if (has_ended)
      await transaction(
        pool,
        null,
        (tx) =>
          tx.query(sql`update imports set errors_erase_at = null
            where import_id = ${import_id} and errors_erase_at = ${at}::timestamptz`),
        { role: "tributary_upload" },
      );
  }
};
