// The contracts of uploads in parts: an upload begins here, its parts go to the upload host, and
// the file is imported once all parts are stored.
import { z } from "zod";
import { MOST_BYTES } from "../../../../modules/intake/imports/import-file.ts";
import { uploadColumns } from "../../../../processors/admit/upload/csv-row.ts";
import { contract, MANY_KEYS } from "../contract.ts";
import { choice, id, time, words } from "../fields.ts";

const uploadId = z.string().regex(/^upl_[0-9a-f-]{36}$/, "give the upload_id that init has answered");
const sha256 = z.string().regex(/^[0-9a-fA-F]{64}$/, "give a SHA-256 as 64 hex digits");
const filename = z
  .string()
  .regex(/^[A-Za-z0-9._-]{1,200}$/, "1 to 200 of A-Z a-z 0-9 . _ -")
  .regex(/[^.]\.csv$/i, "name it .csv; gzipped files go to PUT /upload/{client}/{partner}/{filename}");

export const beginUpload = contract({
  route: "POST /api/v3/upload/init",
  summary: "Begins the upload of a file in parts, which go to the host of uploads.",
  body: z.strictObject({
    ...{ client_id: id, partner_id: id, filename },
    size: z.int().min(1).max(MOST_BYTES).describe("bytes of the file, plain"),
    sha256: sha256.optional().describe("of the whole file: an import of other bytes fails"),
  }),
  answers: z.object({
    upload_id: z.string(),
    part_size: z.int().describe("bytes of each part but the last"),
    part_urls: z
      .array(z.string())
      .describe("addresses on the host of uploads (paths without UPLOAD_URL), the first part first"),
    token: z.string().nullable().describe("for the parts alone; null once it is no longer good"),
    expires_at: time.describe("by then its import is queued, or all of it is removed"),
  }),
  status: 201,
  isIdempotent: true,
  conflicts: ["client_archived", "partner_archived"],
});
export const completeUpload = contract({
  route: "POST /api/v3/upload/complete",
  summary: "All parts were sent: each is compared with what is stored.",
  body: z.strictObject({
    upload_id: uploadId,
    parts: z
      .array(z.strictObject({ part: z.int().min(1).max(640), sha256 }))
      .min(1)
      .max(640),
  }),
  answers: z.object({ import_id: z.string(), status: choice(["pending_upload"]) }),
  isIdempotent: true,
  conflicts: ["parts_missing", "checksum_mismatch", "upload_ended"],
  mostKeys: MANY_KEYS,
});
export const processImport = contract({
  route: "POST /api/v3/imports/process",
  summary: "Queues the import of a file that was sent in parts; `mapping` where it names its columns otherwise.",
  body: z.strictObject({
    import_id: z.string().regex(/^imp_[0-9a-f-]{36}$/, "give the import_id that complete has answered"),
    mapping: z
      .strictObject(Object.fromEntries(uploadColumns.map((name) => [name, words(200).optional()])))
      .optional()
      .describe("our columns to theirs"),
  }),
  answers: z.object({ import_id: z.string(), status: choice(["queued"]) }),
  isIdempotent: true,
  conflicts: ["not_uploaded", "invalid_transition"],
});
