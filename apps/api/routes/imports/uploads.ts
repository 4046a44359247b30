// The routes of uploads in parts: begin an upload, complete it, and import the file.
import { orUnavailable } from "../../../../infra/runtime/errors.ts";
import { shownAddress } from "../../../../modules/base/public-hosts.ts";
import { missing } from "../../../../modules/base/refusal.ts";
import { PART_BYTES } from "../../../../modules/intake/imports/import-file.ts";
import { fileOfImport } from "../../../../modules/intake/imports/import-reads.ts";
import { beginUpload } from "../../../../modules/intake/imports/parts/begin.ts";
import { completeUpload } from "../../../../modules/intake/imports/parts/complete.ts";
import { tokenOfUpload } from "../../../../modules/intake/imports/parts/upload-token.ts";
import { expiresAt, partsOf, type Upload, uploadOf } from "../../../../modules/intake/imports/parts/uploads.ts";
import { checkHead, startImport } from "../../../../modules/intake/imports/start.ts";
import * as contracts from "../../contract/imports/uploads.ts";
import { firstAnswer } from "../../request/write.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({
  keyring,
  objects,
  hosts,
}: Pick<ApiPorts, "keyring" | "objects" | "hosts">): readonly Route[] => [
  route(contracts.beginUpload, async ({ write, read, body }) => {
    const begun = await write(
      (work) => beginUpload(work, keyring, body),
      (upload) => ({ body: shown(upload, hosts) }),
    );
    const answer = firstAnswer<{ readonly upload_id: string; readonly expires_at: string }>(begun);
    // The token is stored nowhere, so the first answer has none.
    const upload = await read((tx, { clients }) => uploadOf(tx, answer.upload_id, clients));
    const token = upload === undefined ? null : (tokenOfUpload(keyring, upload) ?? null);
    return { body: { ...answer, expires_at: Date.parse(answer.expires_at), token } };
  }),

  route(contracts.completeUpload, ({ write, body }) =>
    write(
      (work) => completeUpload(work, body),
      (import_id) => ({ body: { import_id, status: "pending_upload" } }),
    ),
  ),

  route(contracts.processImport, async ({ write, read, body: { import_id, mapping = null } }) => {
    const file = await read((tx, { clients }) => fileOfImport(tx, import_id, clients));
    if (file === undefined) throw missing();
    await checkHead(objects, file, mapping).catch(orUnavailable("files cannot be read now", 5));
    return write(
      (work) => startImport(work, { import_id, mapping }),
      () => ({ body: { import_id, status: "queued" } }),
    );
  }),
];

const shown = (upload: Upload, hosts: ApiPorts["hosts"]) => {
  const { upload_id, size } = upload;
  const part_urls = Array.from({ length: partsOf(size) }, (_, n) =>
    shownAddress(hosts.upload, `/parts/${upload_id}/${n + 1}`),
  );
  return { upload_id, part_size: PART_BYTES, part_urls, token: null, expires_at: expiresAt(upload) };
};
