// Uploads in parts for the platform API. An upload begins with the import of the file, and is
// complete when each part is stored as the sender says.
import type { PoolClient } from "pg";
import { sql } from "../../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import { PART_BYTES } from "../import-file.ts";
import type { ImportState } from "../import-state.ts";

export interface Upload {
  readonly upload_id: string;
  readonly client_id: number;
  readonly import_id: string;
  readonly size: number;
  readonly seed: string;
  readonly token_sha256: Buffer;
  readonly completed_at: UnixMs | null;
  readonly created_at: UnixMs;
  /** The state of its import. */
  readonly status: ImportState;
}

/** An upload that is not complete by then has expired. */
const EXPIRES_MS = 24 * 3_600_000;
export const expiresAt = ({ created_at }: Pick<Upload, "created_at">): UnixMs => created_at + EXPIRES_MS;

export const partsOf = (size: number): number => Math.ceil(size / PART_BYTES);
/** Parts are numbered from 1, as in their addresses. */
export const bytesOfPart = (size: number, part: number): number => Math.min(PART_BYTES, size - (part - 1) * PART_BYTES);

/** The upload if the caller sees its client; undefined: there is none. */
export const uploadOf = async (
  tx: PoolClient,
  uploadId: string,
  clients: readonly number[],
  lock: "for update" | "" = "",
): Promise<Upload | undefined> => {
  const { rows } = await tx.query<Upload>(sql`
    select u.upload_id, u.client_id, u.import_id, u.size::float8 as size, u.seed::text, u.token_sha256, u.created_at,
      u.completed_at, i.status
    from uploads u join imports i using (import_id)
    where u.upload_id = ${uploadId} and u.client_id = any (${clients}::int[]) ${{ text: lock, values: [] }}`);
  return rows[0];
};
