// Completes an upload after checking that each part is stored as the sender says. Does not read the
// parts.
import { sql } from "../../../../infra/postgres/sql.ts";
import { conflict, invalid, missing } from "../../../base/refusal.ts";
import type { Work } from "../../../base/work.ts";
import { partsOf, uploadOf } from "./uploads.ts";

interface NamedPart {
  /** The number of the part, from 1. */
  readonly part: number;
  readonly sha256: string;
}
export interface UploadEnd {
  readonly upload_id: string;
  readonly parts: readonly NamedPart[];
}

const MOST_NAMED = 100;

/**
 * Returns the import; repeated calls return the same. Throws RefusalError: missing, invalid
 * `bad_part`, conflict `parts_missing`, `checksum_mismatch`, `upload_ended`.
 */
export const completeUpload = async ({ tx, scope }: Work, { upload_id, parts }: UploadEnd): Promise<string> => {
  const upload = await uploadOf(tx, upload_id, scope.clients, "for update");
  if (upload === undefined) throw missing();
  const { size, import_id, completed_at, status } = upload;
  const all = Array.from({ length: partsOf(size) }, (_, n) => n + 1);
  refuseOdd(parts, all.length);
  const { rows } = await tx.query<NamedPart>(sql`
    select part, sha256 from upload_parts where upload_id = ${upload_id} and stored_at is not null`);
  const stored = new Map(rows.map(({ part, sha256 }) => [part, sha256]));
  const named = new Map(parts.map(({ part, sha256 }) => [part, sha256.toLowerCase()]));
  refuseParts(
    "parts_missing",
    "parts are not stored, or not named: send them",
    all.filter((part) => !stored.has(part) || !named.has(part)),
  );
  refuseParts(
    "checksum_mismatch",
    "what is stored of these parts has another SHA-256",
    parts.flatMap(({ part }) => (stored.get(part) === named.get(part) ? [] : [part])),
  );
  if (completed_at !== null) return import_id;
  if (status !== "pending_upload") throw conflict("upload_ended", "the upload has ended: begin another one");
  await tx.query(sql`update imports set parts = ${all.length}, bytes = ${size}::bigint
    where import_id = ${import_id}`);
  await tx.query(sql`update uploads set completed_at = clock_timestamp() where upload_id = ${upload_id}`);
  return import_id;
};

/** Throws RefusalError `bad_part` for a part that is named twice or that the file does not have. */
const refuseOdd = (parts: readonly NamedPart[], most: number): void => {
  const numbers = parts.map(({ part }) => part);
  const wrong = numbers.findIndex((part, n) => part > most || numbers.indexOf(part) !== n);
  if (wrong >= 0) throw invalid(`/parts/${wrong}/part`, "bad_part", `name each part from 1 to ${most} once`);
};

const refuseParts = (code: string, message: string, parts: readonly number[]): void => {
  if (parts.length > 0) throw conflict(code, message, { details: { parts: parts.slice(0, MOST_NAMED) } });
};
