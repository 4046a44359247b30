// The body of a request as bytes, once: its size capped while it arrives and while it is inflated,
// its speed bounded below, and what all bodies hold together bounded for each sender.
import type { IncomingMessage } from "node:http";
import type { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { LinkedList, type ListLinks } from "../runtime/timing/under-way.ts";
import { Problem, SenderGone, unavailable } from "./problem.ts";

/**
 * 25 MiB inflated (docs/design/contracts.md, "Limits"): 10,000 events of 2.6 KB. What other routes
 * take is less, and said by them.
 */
const MAX_BODY_BYTES = 25 * 1024 * 1024;
/**
 * What may be held at once of all bodies under way: ten of the largest. Above it senders are asked
 * to come again instead of growing the heap.
 */
const MAX_HELD_BYTES = 256 * 1024 * 1024;

/**
 * A quarter of it for one token, half of it for one address (several senders may share a proxy): a
 * sender who stalls bodies stops no other one.
 */
const SHARES = { token: MAX_HELD_BYTES / 4, address: MAX_HELD_BYTES / 2 } as const;
/**
 * A body that is under way brings at least 1 KiB a second; slower ones hold their memory for
 * nothing.
 */
const PACE_MS = 5_000;
const PACE_BYTES = 5 * 1024;
/**
 * A piece of a body costs an object and 3 us, whatever it holds: behind the first thousand they
 * have so many bytes on average.
 */
const FREE_PIECES = 1_000;
const PIECE_BYTES = 32;
/** Time for the sender to read why, before its connection is cut. */
const GRACE_MS = 1_000;
/** JSON of events shrinks by 5 to 20 with gzip; a bomb by 1,000. Below 1 MiB it does not matter. */
const MAX_RATIO = 50;
const FREE_OF_RATIO = 1024 * 1024;

let heldBytes = 0;
const heldByToken = new Map<string, number>();
const heldByAddress = new Map<string, number>();

/** Whom a body counts against; a route without tokens names the address alone. */
export interface Sender {
  readonly token?: string;
  readonly address: string;
}

/** What one request holds, for all that it counts against. */
const openHold = (sender: Sender) => {
  const { token, address } = sender;
  let mine = 0;
  const add = (bytes: number): void => {
    mine += bytes;
    heldBytes += bytes;
    if (token !== undefined) addTo(heldByToken, token, bytes);
    addTo(heldByAddress, address, bytes);
  };
  const isOver = (bytes: number): boolean =>
    (token !== undefined && (heldByToken.get(token) ?? 0) + bytes > SHARES.token) ||
    (heldByAddress.get(address) ?? 0) + bytes > SHARES.address;
  /** Throws when `bytes` more would be too much. */
  const check = (bytes: number): void => {
    if (heldBytes + bytes > MAX_HELD_BYTES) throw unavailable("too many bodies are under way", 1);
    if (isOver(bytes))
      throw new Problem("rate_limited", "too many bodies of this sender are under way: wait for their answers", {
        headers: { "Retry-After": "1" },
      });
  };
  return { add, check, release: () => add(-mine) };
};
type Hold = ReturnType<typeof openHold>;

const JSON_TYPE = "application/json";
export const FORM_TYPE = "application/x-www-form-urlencoded";

const addTo = (heldBy: Map<string, number>, owner: string, bytes: number): void => {
  const held = (heldBy.get(owner) ?? 0) + bytes;
  if (held > 0) heldBy.set(owner, held);
  else heldBy.delete(owner);
};

/** A body that is being read, and when its pace is looked at next: ms of `performance`. */
interface UnderWay extends ListLinks<UnderWay> {
  due: number;
  readonly look: () => void;
}
/** One timer for all bodies: nearly all of them are whole before it would be asked. */
const underWay = new LinkedList<UnderWay>();
const LOOK_MS = 250;
let looking: NodeJS.Timeout | undefined;

const lookAfter = (body: UnderWay): void => {
  underWay.add(body);
  looking ??= setInterval(lookThrough, LOOK_MS).unref();
};
const lookThrough = (): void => {
  const now = performance.now();
  for (const body of underWay) {
    if (body.due > now) continue;
    body.due += PACE_MS;
    body.look();
  }
  if (underWay.first !== undefined) return;
  clearInterval(looking);
  looking = undefined;
};

/**
 * The type of the body, in small letters. Throws Problem 415 for what is none of `types` in UTF-8,
 * plain or, where that is among the encodings, gzipped once; a body without a
 * type is taken as JSON. A PATCH may call it what it is, a merge-patch (RFC 7396).
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
 * Reads and, when it is gzipped and not wanted as it came, inflates the body, and gives it to
 * `use`; its bytes count as held until `use` has ended.
 * Throws Problem 413 above the cap, 400 for a gzip that is broken or cut and for a body that comes
 * too slowly, 429 or 503 when too much is under way; Aborted when the sender went away.
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
 * A body as it comes, for what keeps none of it. Throws Problem 400 for pieces that are made to
 * cost. Who stops reading can still answer.
 */
export async function* piecesOf(request: Readable): AsyncGenerator<Buffer, void> {
  const isTooSmall = piecesOfBody();
  for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if (isTooSmall(piece.length)) throw tooSmallPieces();
    yield piece;
  }
}

/** Counts the pieces of one body; true from when they are too small. */
export const piecesOfBody = (): ((bytes: number) => boolean) => {
  let pieces = 0;
  let size = 0;
  return (bytes) => {
    pieces += 1;
    size += bytes;
    return pieces > FREE_PIECES && size < pieces * PIECE_BYTES;
  };
};
const tooSmallPieces = (): Problem =>
  new Problem("bad_request", `the body comes in too small pieces: send chunks of at least ${PIECE_BYTES} bytes`, {
    headers: { Connection: "close" },
  });

const read = (request: IncomingMessage, hold: Hold, maxBytes: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let few: Buffer[] = [];
    const isTooSmall = piecesOfBody();
    let size = 0;
    let paced = 0;
    const cut = (problem: Problem): void => {
      end(() => reject(problem));
      setTimeout(() => request.socket.destroy(), GRACE_MS).unref();
    };
    const pace: UnderWay = {
      due: performance.now() + PACE_MS,
      look: () => {
        if (size - paced < PACE_BYTES) cut(tooSlow());
        paced = size;
      },
      before: undefined,
      behind: undefined,
    };
    lookAfter(pace);
    // The listeners go with the request: taking them away costs as much as adding them.
    let hasEnded = false;
    const end = (settle: () => void): void => {
      if (hasEnded) return;
      hasEnded = true;
      underWay.remove(pace);
      settle();
    };
    const refuse = (problem: unknown): void => {
      // The rest is read and thrown away by Node, so that the sender gets to read the answer.
      end(() => reject(problem));
      request.resume();
    };
    const gather = (): void => {
      chunks.push(few.length === 1 ? few[0]! : Buffer.concat(few));
      few = [];
    };
    const onData = (chunk: Buffer): void => {
      if (hasEnded) return;
      size += chunk.length;
      if (isTooSmall(chunk.length)) {
        cut(tooSmallPieces());
        return;
      }
      try {
        if (size > maxBytes) throw tooLarge(maxBytes);
        hold.check(chunk.length);
        hold.add(chunk.length);
        few.push(chunk);
        if (few.length === FREE_PIECES) gather();
      } catch (problem) {
        refuse(problem);
      }
    };
    const onEnd = (): void => {
      if (hasEnded) return;
      gather();
      end(() => resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks, size)));
    };
    const onGone = (): void => end(() => reject(new SenderGone("the sender went away")));
    request.on("data", onData).on("end", onEnd).on("close", onGone).on("error", onGone);
  });

/**
 * The last four bytes of gzip: how long the last member says that it is, modulo 2^32. Of a body
 * that was cut they are any number, so the length is checked where it is reached.
 */
const declaredLength = (raw: Buffer): number => (raw.length < 18 ? 0 : raw.readUInt32LE(raw.length - 4));

/**
 * Room is reserved before anything is inflated, by the length that the body declares, so a body for
 * which there is no room costs nothing. One that is longer than it says takes its room as it grows.
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
