// The routes of uploads in parts: begin one, say that all of it was sent, and import it.
import { orUnavailable, Problem } from "../../../../infra/http/problem.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import { partnerArchived } from "../../../../modules/catalog/partners/open-partner.ts";
import { readPartner } from "../../../../modules/catalog/partners/partner-reads.ts";
import { BadFile, type Mapping, readHead } from "../../../../modules/intake/imports/csv-head.ts";
import { fileFrom, PART_BYTES } from "../../../../modules/intake/imports/import-file.ts";
import { type FileOfImport, fileOfImport, queueImport } from "../../../../modules/intake/imports/import-reads.ts";
import { tokenOfUpload } from "../../../../modules/intake/imports/parts/upload-token.ts";
import * as uploads from "../../../../modules/intake/imports/parts/uploads.ts";
import * as contracts from "../../contract/imports/uploads.ts";
import { fault, notFound } from "../../request/accept.ts";
import { type ApiPorts, type Ask, type Reply, type Route, route, type Work } from "../../route.ts";

type Ports = Pick<ApiPorts, "keyring" | "objects">;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.beginUpload, async (ask) => {
    const begun = await ask.write((work) => begin(ports, work, ask));
    // As it was first answered, where this is a repeat; the token is kept nowhere.
    const answer = JSON.parse(begun.text!) as { readonly upload_id: string; readonly expires_at: string };
    const upload = await ask.read((tx, { clients }) => uploads.uploadOf(tx, answer.upload_id, clients));
    const token = upload === undefined ? null : (tokenOfUpload(ports.keyring, upload) ?? null);
    return { body: { ...answer, expires_at: Date.parse(answer.expires_at), token } };
  }),
  route(contracts.completeUpload, ({ write, body }) => write((work) => complete(work, body))),
  route(contracts.processImport, async (ask) => {
    const { import_id, mapping = null } = ask.body;
    const file = await ask.read((tx, { clients }) => fileOfImport(tx, import_id, clients));
    if (file === undefined) throw notFound();
    if (file.status === "pending_upload") await checkHead(ports, file, mapping);
    return ask.write((work) => process(work, import_id, mapping));
  }),
];

const conflict = (code: string, detail: string, members: Readonly<Record<string, unknown>> = {}): Problem =>
  new Problem("conflict", detail, { code, members });

const begin = async (
  { keyring }: Ports,
  work: Work,
  { body, user }: Pick<Ask<typeof contracts.beginUpload>, "body" | "user">,
): Promise<Reply> => {
  const { tx, scope, audit } = work;
  const { client_id, partner_id, size, sha256 } = body;
  await openClient(work, client_id);
  const partner = await readPartner(tx, partner_id, scope.clients, []);
  if (!partner?.state.client_ids.includes(client_id)) throw notFound();
  if (partner.state.status === "archived") throw partnerArchived();
  const wanted = { ...body, created_by: user.email, sha256: sha256?.toLowerCase() ?? null };
  const upload_id = await uploads.beginUploadInParts(tx, wanted, keyring);
  if (upload_id === undefined)
    throw new Problem("rate_limited", "too many imports of this partner have not ended yet: send it later", {
      headers: { "Retry-After": "60" },
    });
  const upload = (await uploads.uploadOf(tx, upload_id, scope.clients))!;
  const entity = `import:${upload.import_id}`;
  await audit({ action: "import.created", client_id, entity, after: { partner_id, size } });
  const part_urls = Array.from({ length: uploads.partsOf(size) }, (_, n) => `/parts/${upload_id}/${n + 1}`);
  return {
    body: { upload_id, part_size: PART_BYTES, part_urls, token: null, expires_at: uploads.expiresAt(upload) },
  };
};

const complete = async (
  { tx, scope }: Work,
  { upload_id, parts }: Ask<typeof contracts.completeUpload>["body"],
): Promise<Reply> => {
  const upload = await uploads.uploadOf(tx, upload_id, scope.clients, "for update");
  if (upload === undefined) throw notFound();
  const named = parts.map(({ part }) => part);
  const most = uploads.partsOf(upload.size);
  const wrong = named.findIndex((part, n) => part > most || named.indexOf(part) !== n);
  if (wrong >= 0) throw fault(`/parts/${wrong}/part`, "bad_part", `name each part from 1 to ${most} once`);
  const completed = await uploads.completeUpload(tx, upload, parts);
  if (completed.kind === "ended") throw conflict("upload_ended", "the upload has ended: begin another one");
  if (completed.kind === "missing")
    throw conflict("parts_missing", "parts are not stored, or not named: send them", { parts: completed.parts });
  if (completed.kind === "differs")
    throw conflict("checksum_mismatch", "what is stored of these parts has another SHA-256", {
      parts: completed.parts,
    });
  return { body: { import_id: upload.import_id, status: "pending_upload" } };
};

/** Throws Problem 400 for a head that cannot be imported so, 409 while it is not there. */
const checkHead = async ({ objects }: Ports, file: FileOfImport, mapping: Mapping | null): Promise<void> => {
  if (file.parts === null) throw conflict("not_uploaded", "the file is not there yet: complete its upload");
  try {
    await readHead(fileFrom(objects, file.import_id, file.parts, 0), mapping);
  } catch (error) {
    if (error instanceof BadFile)
      throw fault(mapping === null ? "/import_id" : "/mapping", error.code, error.message.slice(0, 500));
    orUnavailable("files cannot be read now", 5)(error);
  }
};

const textOf = (mapping: Mapping | null): string => JSON.stringify(Object.entries(mapping ?? {}).sort());

/** Again with the same mapping: the same answer, as long as it waits. */
const process = async ({ tx, scope, audit }: Work, import_id: string, mapping: Mapping | null): Promise<Reply> => {
  const file = await fileOfImport(tx, import_id, scope.clients, "for update");
  if (file === undefined) throw notFound();
  const isAgain = file.status === "queued" && textOf(file.mapping) === textOf(mapping);
  if (!isAgain && (file.status !== "pending_upload" || file.parts === null))
    throw conflict("invalid_transition", `an import that is ${file.status} cannot be queued`, {
      ...{ from: file.status, to: "queued", allowed: [] },
    });
  if (!isAgain) {
    await queueImport(tx, import_id, mapping);
    const entity = `import:${import_id}`;
    await audit({ action: "import.started", client_id: file.client_id, entity, after: { mapping } });
  }
  return { body: { import_id, status: "queued" } };
};
