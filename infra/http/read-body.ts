// The body of a request as bytes, once: its size capped while it arrives and while it is inflated.
import type { IncomingMessage } from "node:http";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { Aborted, Problem, unavailable } from "./problem.ts";

/**
 * 25 MiB inflated (docs/design/contracts.md, "Limits"): 10,000 events of 2.6 KB. What other routes
 * take is less, and said by them.
 */
export const MAX_BODY_BYTES = 25 * 1024 * 1024;
/**
 * What may be held at once of all bodies under way: ten of the largest. Above it senders are asked
 * to come again instead of growing the heap.
 */
const MAX_HELD_BYTES = 256 * 1024 * 1024;

const inflate = promisify(gunzip);
let heldBytes = 0;

/**
 * Throws Problem 415 for what is not JSON in UTF-8, plain or gzipped once; a body without a type is
 * taken as JSON.
 */
export const checkType = (request: IncomingMessage): void => {
  const { "content-type": type, "content-encoding": encoding = "identity" } = request.headers;
  const [name, ...parameters] = (type ?? "application/json").toLowerCase().split(";");
  const charset = parameters.map((parameter) => parameter.trim()).find((parameter) => parameter.startsWith("charset="));
  if (name!.trim() !== "application/json" || !(charset === undefined || /^charset="?utf-?8"?$/.test(charset)))
    throw new Problem("unsupported_media_type", "send application/json in UTF-8", {
      headers: { Accept: "application/json" },
    });
  if (!["identity", "gzip"].includes(encoding.toLowerCase()))
    throw new Problem("unsupported_media_type", "send the body plain, or gzipped once", {
      headers: { "Accept-Encoding": "gzip" },
    });
};

/**
 * Reads and, when it is gzipped, inflates the body, and gives it to `use`; its bytes count as held
 * until `use` has ended.
 * Throws Problem 413 above the cap, 400 for a gzip that is broken or cut, 503 when too much is
 * under way; Aborted when the sender went away.
 */
export const withBody = async <T>(
  request: IncomingMessage,
  use: (body: Buffer) => Promise<T>,
  maxBytes: number = MAX_BODY_BYTES,
): Promise<T> => {
  const declared = Number(request.headers["content-length"] ?? 0);
  if (declared > maxBytes) throw tooLarge(maxBytes);
  if (heldBytes + declared > MAX_HELD_BYTES) throw unavailable("too many bodies are under way", 1);
  let mine = 0;
  const hold = (bytes: number): void => {
    mine += bytes;
    heldBytes += bytes;
  };
  try {
    const raw = await read(request, hold, maxBytes);
    if (request.headers["content-encoding"]?.toLowerCase() !== "gzip") return await use(raw);
    const body = await inflated(raw, maxBytes);
    hold(body.length - raw.length);
    return await use(body);
  } finally {
    heldBytes -= mine;
  }
};

const tooLarge = (maxBytes: number): Problem =>
  new Problem("payload_too_large", `send at most ${maxBytes} bytes, counted after inflating`);

const read = (request: IncomingMessage, hold: (bytes: number) => void, maxBytes: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const end = (settle: () => void): void => {
      request.off("data", onData).off("end", onEnd).off("close", onGone).off("error", onGone);
      settle();
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      hold(chunk.length);
      if (size <= maxBytes && heldBytes <= MAX_HELD_BYTES + MAX_BODY_BYTES) return void chunks.push(chunk);
      // The rest is read and thrown away by Node, so that the sender gets to read the answer.
      end(() => reject(size > maxBytes ? tooLarge(maxBytes) : unavailable("too many bodies are under way", 1)));
      request.resume();
    };
    const onEnd = (): void => end(() => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)));
    const onGone = (): void => end(() => reject(new Aborted("the sender went away")));
    request.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone);
  });

const inflated = async (raw: Buffer, maxBytes: number): Promise<Buffer> => {
  try {
    return await inflate(raw, { maxOutputLength: maxBytes });
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === "ERR_BUFFER_TOO_LARGE"
      ? tooLarge(maxBytes)
      : new Problem("bad_request", "the body is not valid gzip, or was cut");
  }
};
