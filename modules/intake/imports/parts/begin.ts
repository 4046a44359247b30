// Begins the upload of a file in parts, together with its import.
import { randomUUID } from "node:crypto";
import { sql } from "../../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../../infra/runtime/keyring.ts";
import { limited } from "../../../base/refusal.ts";
import type { Work } from "../../../base/work.ts";
import { checkSender, type Sender } from "../begin.ts";
import { entityOfImport } from "../import-reads.ts";
import { hasTooManyOpen } from "../imports.ts";
import { hashOfNewToken } from "./upload-token.ts";
import { type Upload, uploadOf } from "./uploads.ts";

export interface UploadInput extends Sender {
  readonly filename: string;
  readonly size: number;
  /** The hash of the whole file; undefined: the sender does not name it. */
  readonly sha256?: string | undefined;
}

/**
 * Throws RefusalError: see `checkSender`, and limited while the partner has too many open uploads.
 */
export const beginUpload = async (work: Work, keyring: Keyring, input: UploadInput): Promise<Upload> => {
  const { tx, scope, act, audit } = work;
  const { client_id, partner_id, filename, size } = input;
  await checkSender(work, input);
  if (await hasTooManyOpen(tx, partner_id))
    throw limited("too many imports of this partner have not ended yet: send it later", 60);
  const [id, seed] = [randomUUID(), randomUUID()];
  const import_id = `imp_${id}`;
  const upload_id = `upl_${id}`;
  const sha256 = input.sha256?.toLowerCase() ?? null;
  await tx.query(sql`
    insert into imports (import_id, client_id, partner_id, filename, source, status, created_by)
    values (${import_id}, ${client_id}, ${partner_id}, ${filename}, 'v3', 'pending_upload', ${act.actor})`);
  await tx.query(sql`
    insert into uploads (upload_id, client_id, import_id, size, sha256, seed, token_sha256)
    values (${upload_id}, ${client_id}, ${import_id}, ${size}, ${sha256}, ${seed}, ${hashOfNewToken(keyring, seed)})`);
  const after = { partner_id, size };
  await audit({ action: "import.created", client_id, entity: entityOfImport(import_id), after });
  return (await uploadOf(tx, upload_id, scope.clients))!;
};
