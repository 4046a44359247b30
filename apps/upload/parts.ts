// PUT /parts/:upload_id/:part: stores one part of a file in object storage. A part that is sent
// again is stored once.
import { createHash } from "node:crypto";
import type { Request, RequestHandler } from "express";
import type { Pool } from "pg";
import { mayLast } from "../../infra/http/listen.ts";
import { Problem, SenderGone, unavailable } from "../../infra/http/problem.ts";
import { bearerOf, refusals } from "../../infra/http/tokens.ts";
import type { Objects } from "../../infra/objects/objects.ts";
import { orUnavailable } from "../../infra/runtime/errors.ts";
import type { Metrics } from "../../infra/runtime/metrics.ts";
import { findUpload, type OpenUpload, storePart } from "../../modules/intake/imports/parts/sent-parts.ts";
import { isTokenOf } from "../../modules/intake/imports/parts/upload-token.ts";
import { bytesOfPart, partsOf } from "../../modules/intake/imports/parts/uploads.ts";

export interface PartPorts {
  readonly pool: Pool;
  readonly objects: Pick<Objects, "put">;
  readonly count: Metrics["countRequest"];
}

const UPLOAD_ID = /^upl_[0-9a-f-]{36}$/;
const PART = /^[1-9]\d{0,3}$/;
const SHA256 = /^[0-9a-f]{64}$/i;
/** Each of them holds a part of 8 MiB in memory. */
const MOST_AT_ONCE = 16;
/** A sender that sends no byte for this long is gone. */
const SILENCE_MS = 60_000;
/** A sender that takes longer would block its place for others. */
const WHOLE_MS = 300_000;

export const partsRoute = ({ pool, objects, count }: PartPorts): RequestHandler => {
  const refused = refusals();
  let underWay = 0;
  return async (request, response) => {
    const began = performance.now();
    response.once("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      count({ edge: "parts", status: response.statusCode, seconds, accepted: 0, refused: new Map() });
    });
    const { upload, token } = await askedUpload(pool, request);
    if (upload === undefined || token === undefined || !isTokenOf(token, upload.token_sha256))
      throw refused(request.ip ?? "", unauthorized());
    const sent = checkPart(request, upload);
    if (underWay >= MOST_AT_ONCE) throw unavailable("too many parts are under way", 2);
    underWay += 1;
    try {
      const bytes = await readPart(request, sent);
      const stored = await storePart({ pool, objects }, upload, { ...sent, bytes }).catch(
        orUnavailable("parts cannot be stored now", 2),
      );
      if (stored === "ended") throw ended();
      if (stored === "differs") throw differs(sent.part);
      response.json({ part: sent.part, sha256: sent.sha256, bytes: bytes.length });
    } finally {
      underWay -= 1;
    }
  };
};

const unauthorized = (): Problem =>
  new Problem("unauthorized", "send Authorization: Bearer <token> with the token that init has answered", {
    headers: { "WWW-Authenticate": 'Bearer realm="upload"' },
  });
const ended = (): Problem =>
  new Problem("conflict", "the upload has ended: begin another one", { code: "upload_ended" });
const differs = (part: number): Problem =>
  new Problem("conflict", `other bytes came for part ${part} before: begin another upload for another file`, {
    code: "part_differs",
  });

const askedUpload = async (pool: Pool, request: Request) => {
  const [id, token] = [String(request.params.upload_id), bearerOf(request)];
  if (token === undefined || !UPLOAD_ID.test(id)) return { upload: undefined, token };
  return { upload: await findUpload(pool, id).catch(orUnavailable("uploads cannot be asked for now", 2)), token };
};

interface PartHeaders {
  readonly part: number;
  readonly sha256: string;
  readonly length: number;
}

/**
 * Checks the path and the headers before any byte is read. Throws Problem 400, 404, 409, 413, 415.
 */
const checkPart = (request: Request, { size, status, is_complete }: OpenUpload): PartHeaders => {
  const given = String(request.params.part);
  const part = PART.test(given) ? Number(given) : 0;
  if (part < 1 || part > partsOf(size)) throw new Problem("not_found", `this upload has parts 1 to ${partsOf(size)}`);
  if (status !== "pending_upload" && !is_complete) throw ended();
  const sha256 = request.headersDistinct["content-sha256"] ?? [];
  if (sha256.length !== 1 || !SHA256.test(sha256[0]!))
    throw new Problem("bad_request", "send Content-SHA256: the SHA-256 of this part as 64 hex digits", {
      code: "bad_checksum",
    });
  if ((request.headers["content-encoding"] ?? "identity").toLowerCase() !== "identity")
    throw new Problem("unsupported_media_type", "send parts plain, without Content-Encoding");
  const length = bytesOfPart(size, part);
  const announced = request.headers["content-length"];
  if (announced !== undefined && Number(announced) !== length) throw wrongLength(part, length);
  return { part, sha256: sha256[0]!.toLowerCase(), length };
};
const wrongLength = (part: number, length: number): Problem =>
  new Problem("bad_request", `part ${part} of this upload has ${length} bytes`, {
    ...{ code: "bad_part_size", headers: { Connection: "close" } },
  });

/** Throws Problem 400 for more or other bytes, SenderGone when the sender goes away. */
const readPart = async (request: Request, { part, sha256, length }: PartHeaders): Promise<Buffer> => {
  mayLast(request);
  request.setTimeout(SILENCE_MS, () => request.destroy());
  const late = setTimeout(() => request.destroy(), WHOLE_MS);
  const bytes = Buffer.allocUnsafe(length);
  let read = 0;
  try {
    for await (const chunk of request as AsyncIterable<Buffer>) {
      if (read + chunk.length > length) throw wrongLength(part, length);
      read += chunk.copy(bytes, read);
    }
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new SenderGone("the sender went away");
  } finally {
    clearTimeout(late);
  }
  if (read !== length) throw wrongLength(part, length);
  if (createHash("sha256").update(bytes).digest("hex") !== sha256)
    throw new Problem(
      "bad_request",
      "the bytes that came have another SHA-256 than Content-SHA256 says: send it again",
      {
        code: "checksum_mismatch",
      },
    );
  return bytes;
};
