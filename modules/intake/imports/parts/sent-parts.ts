// Stores the parts of a file, each once, even if parts are repeated or come in another order.
import type { Pool, PoolClient } from "pg";
import { hit } from "#failpoint";
import type { Objects } from "../../../../infra/objects/objects.ts";
import { sql, transaction } from "../../../../infra/postgres/sql.ts";
import { partKey } from "../import-file.ts";
import type { ImportState } from "../import-state.ts";

const within = <T>(pool: Pool, work: (tx: PoolClient) => Promise<T>): Promise<T> =>
  transaction(pool, null, work, { role: "tributary_upload" });

/** The fields of an upload that the upload host needs. */
export interface OpenUpload {
  readonly upload_id: string;
  readonly client_id: number;
  readonly import_id: string;
  readonly size: number;
  readonly token_sha256: Buffer;
  readonly is_complete: boolean;
  /** The state of its import. */
  readonly status: ImportState;
}

export const findUpload = (pool: Pool, uploadId: string): Promise<OpenUpload | undefined> =>
  within(pool, async (tx) => {
    const { rows } = await tx.query<OpenUpload>(sql`
      select u.upload_id, u.client_id, u.import_id, u.size::float8 as size, u.token_sha256, i.status,
        u.completed_at is not null as is_complete
      from uploads u join imports i using (import_id) where u.upload_id = ${uploadId}`);
    return rows[0];
  });

export interface SentPart {
  /** The number of the part, from 1. */
  readonly part: number;
  /** The hash of these bytes, in lower case. */
  readonly sha256: string;
  readonly bytes: Buffer;
}
/**
 * differs: the part was sent before with other bytes. ended: the import was cancelled or has
 * expired.
 */
export type StoredPart = "stored" | "differs" | "ended";

/**
 * The order of durable effects: 1. the hash of the part, which is final; 2. the bytes; 3. a mark
 * that they are stored. A sender without an answer sends the part again and finds its own bytes.
 * Rejects if a store is away.
 */
export const storePart = async (
  { pool, objects }: { readonly pool: Pool; readonly objects: Pick<Objects, "put"> },
  { upload_id, client_id, import_id }: OpenUpload,
  { part, sha256, bytes }: SentPart,
): Promise<StoredPart> => {
  const known = await within(pool, async (tx) => {
    const { rowCount } = await tx.query(sql`
      select from imports where import_id = ${import_id} and status = 'pending_upload' for share`);
    const isOpen = rowCount === 1;
    if (isOpen)
      await tx.query(sql`
        insert into upload_parts (upload_id, part, client_id, sha256, bytes)
        values (${upload_id}, ${part}, ${client_id}, ${sha256}, ${bytes.length}) on conflict do nothing`);
    const { rows } = await tx.query<{ sha256: string; is_stored: boolean }>(sql`
      select sha256, stored_at is not null as is_stored from upload_parts
      where upload_id = ${upload_id} and part = ${part}`);
    return { isOpen, ...rows[0] };
  });
  hit("upload-part-settled");
  if (known.sha256 !== undefined && known.sha256 !== sha256) return "differs";
  if (known.is_stored) return "stored";
  if (!known.isOpen) return "ended";
  await objects.put(partKey(import_id, part - 1), bytes);
  hit("upload-part-put");
  await within(pool, (tx) =>
    tx.query(sql`update upload_parts set stored_at = clock_timestamp()
      where upload_id = ${upload_id} and part = ${part}`),
  );
  hit("upload-part-stored");
  return "stored";
};

const FORGOTTEN_DAYS = 7;

/** Deletes uploads that began long enough ago to have ended, and returns their number. */
export const forgetUploads = (pool: Pool): Promise<number> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<{ upload_id: string }>(sql`delete from uploads
        where created_at < clock_timestamp() - ${FORGOTTEN_DAYS}::int * interval '1 day' returning upload_id`);
      await tx.query(sql`delete from upload_parts where upload_id = any (${rows.map(({ upload_id }) => upload_id)})`);
      return rows.length;
    },
    { role: "tributary_keeper" },
  );
