// Reads the body of a request as bytes, within the bounds of body-bounds.ts: its size is capped
// while it arrives and while it is inflated.
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import {
  FREE_PIECES,
  type Hold,
  openHold,
  PACE_BYTES,
  PACE_MS,
  PIECE_BYTES,
  piecesOfBody,
  type Sender,
  watchPace,
} from "./body-bounds.ts";
import { Problem, SenderGone } from "./problem.ts";

/**
 * 25 MiB inflated (docs/design/contracts.md, "Limits"): 10,000 events of 2.6 KB. Other routes take
 * less and say so.
 */
const MAX_BODY_BYTES = 25 * 1024 * 1024;
/** Time for the sender to read why, before its connection is cut. */
const GRACE_MS = 1_000;
/** JSON of events shrinks by 5 to 20 with gzip; a bomb by 1,000. Below 1 MiB it does not matter. */
const MAX_RATIO = 50;
const FREE_OF_RATIO = 1024 * 1024;

const JSON_TYPE = "application/json";
export const FORM_TYPE = "application/x-www-form-urlencoded";

/**
 * Returns the type of the body, in small letters. Throws Problem 415 unless it is one of `types` in
 * UTF-8, plain or, where that is among the encodings, gzipped once. A body without a type is taken
 * as JSON. A PATCH may also name the type of a merge-patch (RFC 7396).
 */
export const checkType = (
  request: IncomingMessage,
  encodings: readonly string[] = ["identity", "gzip"],
  types: readonly string[] = [JSON_TYPE],
): string => {
  const { "content-type": type, "content-encoding": encoding = "identity" } = request.headers;
  const [given, ...parameters] = (type ?? JSON_TYPE).toLowerCase().split(";");
  const name = given!.trim();
  const charset = parameters.map((parameter) => parameter.trim()).find((parameter) => parameter.startsWith("charset="));
  const isTaken = types.includes(name) || (request.method === "PATCH" && name === "application/merge-patch+json");
  if (!isTaken || !(charset === undefined || /^charset="?utf-?8"?$/.test(charset)))
    throw new Problem("unsupported_media_type", `send ${types.join(" or ")} in UTF-8`, {
      headers: { Accept: types.join(", ") },
    });
  if (!encodings.includes(encoding.toLowerCase()))
    throw new Problem(
      "unsupported_media_type",
      encodings.includes("gzip") ? "send the body plain, or gzipped once" : "send the body plain",
      { headers: { "Accept-Encoding": encodings.includes("gzip") ? "gzip" : "identity" } },
    );
  return name;
};

/**
 * Reads the body and passes it to `use`; a gzipped body is inflated first, unless it is wanted as
 * it came. Its bytes count as held until `use` has ended.
 * Throws Problem 413 above the cap, 400 for a gzip that is broken or cut and for a body that comes
 * too slowly, 429 or 503 when too much is under way, and SenderGone when the sender went away.
 */
export const withBody = async <T>(
  request: IncomingMessage,
  sender: Sender,
  use: (body: Buffer) => Promise<T>,
  maxBytes: number = MAX_BODY_BYTES,
  form: "inflated" | "as it came" = "inflated",
): Promise<T> => {
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > maxBytes) throw tooLarge(maxBytes);
  const hold = openHold(sender);
  hold.check(declared);
  try {
    const raw = await read(request, hold, maxBytes);
    const isGzip = request.headers["content-encoding"]?.toLowerCase() === "gzip";
    if (!isGzip || form === "as it came") return await use(raw);
    return await use(await inflated(raw, hold, maxBytes));
  } finally {
    hold.release();
  }
};

const tooLarge = (maxBytes: number): Problem =>
  new Problem("payload_too_large", `send at most ${maxBytes} bytes, counted after inflating`);
const tooLong = (most: number, maxBytes: number): Problem =>
  most === maxBytes
    ? tooLarge(maxBytes)
    : new Problem("payload_too_large", `the body inflates more than ${MAX_RATIO} times: send it plain`);
const tooSlow = (): Problem =>
  new Problem("bad_request", `the body comes too slowly: send at least ${PACE_BYTES} bytes in ${PACE_MS / 1_000} s`, {
    headers: { Connection: "close" },
  });

/**
 * Yields a body piece by piece, for a reader that keeps none of it. Throws Problem 400 for pieces
 * that are made to cost. A reader that stops early can still answer.
 */
export async function* piecesOf(request: Readable): AsyncGenerator<Buffer, void> {
  const isTooSmall = piecesOfBody();
  for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if (isTooSmall(piece.length)) throw tooSmallPieces();
    yield piece;
  }
}

const tooSmallPieces = (): Problem =>
  new Problem("bad_request", `the body comes in too small pieces: send chunks of at least ${PIECE_BYTES} bytes`, {
    headers: { Connection: "close" },
  });

const read = (request: IncomingMessage, hold: Hold, maxBytes: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const pieces = new Pieces();
    const isTooSmall = piecesOfBody();
    // The listeners go with the request: taking them away costs as much as adding them.
    let hasEnded = false;
    const end = (settle: () => void): void => {
      if (hasEnded) return;
      hasEnded = true;
      endWatch();
      settle();
    };
    const cut = (problem: Problem): void => {
      end(() => reject(problem));
      setTimeout(() => request.socket.destroy(), GRACE_MS).unref();
    };
    const refuse = (problem: unknown): void => {
      // Node reads the rest and throws it away, so that the sender gets to read the answer.
      end(() => reject(problem));
      request.resume();
    };
    const endWatch = watchPace(
      () => pieces.size,
      () => cut(tooSlow()),
    );
    const onData = (chunk: Buffer): void => {
      if (hasEnded) return;
      if (isTooSmall(chunk.length)) {
        cut(tooSmallPieces());
        return;
      }
      try {
        if (pieces.size + chunk.length > maxBytes) throw tooLarge(maxBytes);
        hold.check(chunk.length);
        hold.add(chunk.length);
        pieces.add(chunk);
      } catch (problem) {
        refuse(problem);
      }
    };
    const onEnd = (): void => end(() => resolve(pieces.whole()));
    const onGone = (): void => end(() => reject(new SenderGone("the sender went away")));
    request.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone);
  });

/** The pieces of a body, joined a thousand at a time, because each of them is an object. */
class Pieces {
  size = 0;
  readonly #joined: Buffer[] = [];
  #few: Buffer[] = [];

  add(piece: Buffer): void {
    this.size += piece.length;
    this.#few.push(piece);
    if (this.#few.length === FREE_PIECES) this.#join();
  }

  whole(): Buffer {
    this.#join();
    return this.#joined.length === 1 ? this.#joined[0]! : Buffer.concat(this.#joined, this.size);
  }

  #join(): void {
    this.#joined.push(this.#few.length === 1 ? this.#few[0]! : Buffer.concat(this.#few));
    this.#few = [];
  }
}

/**
 * The last four bytes of gzip: the length that the last member declares, modulo 2^32. In a body
 * that was cut they can be any number, so the length is checked where it is reached.
 */
const declaredLength = (raw: Buffer): number => (raw.length < 18 ? 0 : raw.readUInt32LE(raw.length - 4));

/**
 * Reserves the room that the body declares before anything is inflated, so a body for which there
 * is no room costs nothing. A body that is longer than it declares takes its room as it grows.
 */
const inflated = async (raw: Buffer, hold: Hold, maxBytes: number): Promise<Buffer> => {
  const most = Math.min(maxBytes, Math.max(FREE_OF_RATIO, raw.length * MAX_RATIO));
  const take = (length: number): Buffer => {
    hold.check(length);
    hold.add(length);
    return Buffer.allocUnsafe(length);
  };
  let body = take(Math.min(declaredLength(raw), most));
  let size = 0;
  const stream = createGunzip({ chunkSize: 64 * 1024 });
  stream.end(raw);
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      if (size + chunk.length > most) throw tooLong(most, maxBytes);
      if (size + chunk.length > body.length)
        // Doubled, so that a body which hides its length is not copied for each of its chunks.
        body = Buffer.concat([body.subarray(0, size), take(Math.min(Math.max(chunk.length, size), most - size))]);
      size += chunk.copy(body, size);
    }
  } catch (error) {
    throw error instanceof Problem ? error : new Problem("bad_request", "the body is not valid gzip, or was cut");
  } finally {
    stream.destroy();
  }
  return body.subarray(0, size);
};
