// Uploads in parts, as the platform API has them: begun with the import of the file, and complete
// when each part is stored as its sender says it is.
import { randomUUID } from "node:crypto";
import type { PoolClient } from "pg";
import { sql } from "../../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../../infra/runtime/keyring.ts";
import type { UnixMs } from "../../../../stream/flow.ts";
import { PART_BYTES } from "../import-file.ts";
import type { ImportState } from "../import-state.ts";
import { hasTooManyOpen, type NewImport } from "../imports.ts";
import { hashOfNewToken } from "./upload-token.ts";

export interface NewUpload extends Omit<NewImport, "source"> {
  readonly size: number;
  /** Of the whole file; null: its sender does not name it. */
  readonly sha256: string | null;
}
export interface Upload {
  readonly upload_id: string;
  readonly client_id: number;
  readonly import_id: string;
  readonly size: number;
  readonly seed: string;
  readonly token_sha256: Buffer;
  readonly completed_at: UnixMs | null;
  readonly created_at: UnixMs;
  /** Of its import. */
  readonly status: ImportState;
}

/** What is not in order by then is over. */
const EXPIRES_MS = 24 * 3_600_000;
export const expiresAt = ({ created_at }: Pick<Upload, "created_at">): UnixMs => created_at + EXPIRES_MS;

export const partsOf = (size: number): number => Math.ceil(size / PART_BYTES);
/** The first part is 1, as in the addresses. */
export const bytesOfPart = (size: number, part: number): number => Math.min(PART_BYTES, size - (part - 1) * PART_BYTES);

/**
 * Inside a transaction that sees the client. Undefined: too many imports of the partner have not
 * ended yet.
 */
export const beginUploadInParts = async (
  tx: PoolClient,
  { client_id, partner_id, filename, created_by, size, sha256 }: NewUpload,
  keyring: Keyring,
): Promise<string | undefined> => {
  if (await hasTooManyOpen(tx, partner_id)) return undefined;
  const [id, seed] = [randomUUID(), randomUUID()];
  const import_id = `imp_${id}`;
  const upload_id = `upl_${id}`;
  await tx.query(sql`
    insert into imports (import_id, client_id, partner_id, filename, source, status, created_by)
    values (${import_id}, ${client_id}, ${partner_id}, ${filename}, 'v3', 'pending_upload', ${created_by})`);
  await tx.query(sql`
    insert into uploads (upload_id, client_id, import_id, size, sha256, seed, token_sha256)
    values (${upload_id}, ${client_id}, ${import_id}, ${size}, ${sha256}, ${seed}, ${hashOfNewToken(keyring, seed)})`);
  return upload_id;
};

/** Of a client that the caller sees; undefined: there is none. */
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

export interface GivenPart {
  readonly part: number;
  readonly sha256: string;
}
/** Parts by number; `ended`: the import was cancelled, or has expired. */
export type Completed =
  | { readonly kind: "completed" }
  | { readonly kind: "missing" | "differs"; readonly parts: readonly number[] }
  | { readonly kind: "ended" };

const MOST_NAMED = 100;

/** The upload is locked. The same answer however often it comes; nothing is read of the parts. */
export const completeUpload = async (
  tx: PoolClient,
  { upload_id, import_id, size, completed_at, status }: Upload,
  given: readonly GivenPart[],
): Promise<Completed> => {
  const { rows } = await tx.query<GivenPart>(sql`
    select part, sha256 from upload_parts where upload_id = ${upload_id} and stored_at is not null`);
  const stored = new Map(rows.map(({ part, sha256 }) => [part, sha256]));
  const named = new Map(given.map(({ part, sha256 }) => [part, sha256.toLowerCase()]));
  const all = Array.from({ length: partsOf(size) }, (_, n) => n + 1);
  const missing = all.filter((part) => !stored.has(part) || !named.has(part));
  if (missing.length > 0) return { kind: "missing", parts: missing.slice(0, MOST_NAMED) };
  const differing = given.filter(({ part, sha256 }) => stored.get(part) !== sha256.toLowerCase());
  if (differing.length > 0) return { kind: "differs", parts: differing.slice(0, MOST_NAMED).map(({ part }) => part) };
  if (completed_at !== null) return { kind: "completed" };
  if (status !== "pending_upload") return { kind: "ended" };
  await tx.query(sql`update imports set parts = ${all.length}, bytes = ${size}::bigint
    where import_id = ${import_id}`);
  await tx.query(sql`update uploads set completed_at = clock_timestamp() where upload_id = ${upload_id}`);
  return { kind: "completed" };
};
