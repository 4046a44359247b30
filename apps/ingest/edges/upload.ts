// PUT /upload/:client/:partner/:filename: stores a CSV file of a partner in object storage, piece
// by piece. apps/upload makes events of its rows.
import type { Request } from "express";
import { codeOf } from "../../../domain/conditions/props.ts";
import type { Partner, Reference } from "../../../domain/reference/reference.ts";
import { mayLast } from "../../../infra/http/listen.ts";
import { Problem, SenderGone, unavailable } from "../../../infra/http/problem.ts";
import { piecesOf } from "../../../infra/http/read-body.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { Token } from "../../../modules/access/tokens/tokens.ts";
import { BadFile } from "../../../modules/intake/imports/csv/csv-head.ts";
import { MOST_BYTES, storeFile } from "../../../modules/intake/imports/import-file.ts";
import { beginUpload, endUpload, isPending, queueUpload } from "../../../modules/intake/imports/imports.ts";
import type { OpenEdge, UploadPorts } from "../edges.ts";

const FILENAME = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,200}$/;
const CSV = /\.csv(\.gz)?$/i;
/** Each of them holds a piece of 8 MiB in memory. */
const MOST_AT_ONCE = 8;
const MOST_OF_PARTNER = 2;
/** A sender that sends no byte for this long is gone. */
const SILENCE_MS = 60_000;

export const open: OpenEdge = ({ uploads, count }) => {
  const underWay = new Map<number, number>();
  return async (request, response) => {
    const began = performance.now();
    response.once("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      count({ edge: "upload", status: response.statusCode, seconds, accepted: 0, refused: new Map() });
    });
    const token = await uploads.authenticate(request, request.ip ?? "");
    const { clientId, partner } = await ownerOf(request, token, uploads);
    checkFile(request);
    const release = takePlace(underWay, partner.partner_id);
    try {
      response.status(201).json(await stored(request, uploads, clientId, partner));
    } finally {
      release();
    }
  };
};

const partOf = (request: Request, name: string): string => String(request.params[name]);

/**
 * Throws Problem 403 if the path names another partner, or a client that the partner does not work
 * for.
 */
const ownerOf = async (request: Request, token: Token, uploads: UploadPorts) => {
  const [client, partner] = [partOf(request, "client"), partOf(request, "partner")];
  const clientIdIn = (of: Reference | undefined) =>
    /^[1-9]\d{0,9}$/.test(client) ? Number(client) : of?.clientIdOf(client);
  await uploads.inForce((at) => at.partner(token.partner_id!)?.client_ids.includes(clientIdIn(uploads.reference())!));
  const reference = uploads.reference();
  if (reference === undefined) throw new Unavailable("the partners are not known here yet", 1);
  const now = Date.now();
  const known = reference.at(now, now);
  const own = known.partner(token.partner_id!);
  const clientId = clientIdIn(reference);
  const isCode = own?.referral_code != null && codeOf(own.referral_code) === codeOf(partner);
  const isOwn = own !== undefined && (isCode || partner === String(own.partner_id));
  const isClients = clientId !== undefined && own?.client_ids.includes(clientId) === true;
  if (!isOwn || !isClients || known.client(clientId)?.status === "archived")
    throw new Problem("forbidden", "this token uploads for its own partner, to the clients of that partner");
  if (token.client_ids !== null && !token.client_ids.includes(clientId))
    throw new Problem("forbidden", "this token is older than the work of the partner for this client: have it rotated");
  return { clientId, partner: own };
};

const checkFile = (request: Request): void => {
  const name = partOf(request, "filename");
  if (!FILENAME.test(name) || !CSV.test(name))
    throw new Problem("bad_request", "name the file with 1 to 200 of A-Z a-z 0-9 . _ - and .csv or .csv.gz at its end");
  const encoding = request.headers["content-encoding"]?.toLowerCase() ?? "identity";
  if (encoding !== "identity" && encoding !== "gzip")
    throw new Problem("unsupported_media_type", "send the file plain, or gzipped once", {
      headers: { "Accept-Encoding": "gzip" },
    });
  if (Number(request.headers["content-length"] ?? 0) > MOST_BYTES) throw tooLarge();
};
const tooLarge = (detail = `send at most ${MOST_BYTES} bytes, inflated`): Problem =>
  new Problem("payload_too_large", detail, { headers: { Connection: "close" } });

/** Throws Problem 503 or 429 while too many uploads are under way. */
const takePlace = (underWay: Map<number, number>, partnerId: number): (() => void) => {
  const own = underWay.get(partnerId) ?? 0;
  const all = [...underWay.values()].reduce((sum, some) => sum + some, 0);
  if (all >= MOST_AT_ONCE) throw unavailable("too many uploads are under way", 5);
  if (own >= MOST_OF_PARTNER)
    throw new Problem("rate_limited", `this partner has ${own} uploads under way: wait for their answers`, {
      headers: { "Retry-After": "5" },
    });
  underWay.set(partnerId, own + 1);
  return () => {
    const left = underWay.get(partnerId)! - 1;
    if (left > 0) underWay.set(partnerId, left);
    else underWay.delete(partnerId);
  };
};

const stored = async (request: Request, { pool, objects }: UploadPorts, clientId: number, partner: Partner) => {
  const filename = partOf(request, "filename");
  const isGzip = /\.gz$/i.test(filename) || request.headers["content-encoding"]?.toLowerCase() === "gzip";
  const created_by = `partner:${partner.partner_id}`;
  const wanted = { client_id: clientId, partner_id: partner.partner_id, filename, source: "put" as const, created_by };
  const importId = await beginUpload(pool, wanted);
  if (importId === undefined)
    throw new Problem("rate_limited", "too many imports of this partner have not ended yet: send it later", {
      headers: { "Retry-After": "5" },
    });
  mayLast(request);
  request.setTimeout(SILENCE_MS, () => request.destroy());
  try {
    const file = await storeFile(wantedObjects(pool, objects, importId), importId, piecesOf(request), isGzip);
    if (file.bytes === 0) throw new BadFile("empty_file", "the file is empty: send a head and rows below it");
    const same = await queueUpload(pool, importId, clientId, file);
    if (same === undefined) throw cancelled();
    return { import_id: importId, status: "queued", ...(same !== null && { same_file_as: same }) };
  } catch (error) {
    const isGone = request.destroyed && !request.complete;
    const why = error instanceof BadFile ? error.message : isGone ? "the sender went away" : "it could not be stored";
    // The next round of the importer removes stored pieces, and ends the upload if this call
    // cannot.
    await endUpload(pool, importId, why).catch(() => undefined);
    if (isGone) throw new SenderGone(why);
    if (error instanceof BadFile) throw problemOf(error);
    throw error;
  }
};

const cancelled = (): Problem => new Problem("conflict", "the upload was cancelled meanwhile");

/** Refuses the pieces of a cancelled upload, because nothing would ever delete them. */
const wantedObjects = (pool: UploadPorts["pool"], objects: UploadPorts["objects"], importId: string) => ({
  put: async (key: string, body: Uint8Array): Promise<void> => {
    if (!(await isPending(pool, importId))) throw cancelled();
    await objects.put(key, body);
  },
});

const problemOf = ({ code, message }: BadFile): Problem =>
  code === "file_too_large" ? tooLarge(message) : new Problem("bad_request", message, { code });
