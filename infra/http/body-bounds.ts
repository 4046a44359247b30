// Bounds on the bodies of requests that are under way: how much they hold together and for one
// sender, how slowly they may come, and in how small pieces.
import { LinkedList, type ListLinks } from "../runtime/timing/under-way.ts";
import { Problem, unavailable } from "./problem.ts";

/**
 * The limit for all bodies under way together: ten of the largest. Above it senders must retry, so
 * that the heap does not grow.
 */
const MAX_HELD_BYTES = 256 * 1024 * 1024;
/**
 * One token may hold a quarter of it, one address half of it (several senders may share a proxy),
 * so that a sender who stalls bodies stops no other one.
 */
const SHARES = { token: MAX_HELD_BYTES / 4, address: MAX_HELD_BYTES / 2 } as const;
/**
 * A body that is under way brings at least 1 KiB a second; slower ones hold their memory for
 * nothing.
 */
export const PACE_MS = 5_000;
export const PACE_BYTES = 5 * 1024;
/**
 * A piece of a body costs an object and 3 us, even if it is tiny. After the first thousand, pieces
 * must have this many bytes on average.
 */
export const FREE_PIECES = 1_000;
export const PIECE_BYTES = 32;

let heldBytes = 0;
const heldByToken = new Map<string, number>();
const heldByAddress = new Map<string, number>();

/** Whom a body counts against; a route without tokens names the address alone. */
export interface Sender {
  readonly token?: string;
  readonly address: string;
}

/**
 * Counts the bytes that one request holds against the limits of its token, its address and the
 * process.
 */
export const openHold = (sender: Sender) => {
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
export type Hold = ReturnType<typeof openHold>;

const addTo = (heldBy: Map<string, number>, owner: string, bytes: number): void => {
  const held = (heldBy.get(owner) ?? 0) + bytes;
  if (held > 0) heldBy.set(owner, held);
  else heldBy.delete(owner);
};

/** A body that is being read, and when its pace is checked next: ms of `performance`. */
interface UnderWay extends ListLinks<UnderWay> {
  due: number;
  readonly look: () => void;
}
/** One timer serves all bodies: nearly all of them are whole before it rings. */
const underWay = new LinkedList<UnderWay>();
const LOOK_MS = 250;
let looking: NodeJS.Timeout | undefined;

/**
 * Calls `onSlow` when fewer than PACE_BYTES have come within PACE_MS; `size` is how many bytes have
 * come so far. Returns the function that ends the watch; call it once.
 */
export const watchPace = (size: () => number, onSlow: () => void): (() => void) => {
  let paced = 0;
  const body: UnderWay = {
    due: performance.now() + PACE_MS,
    look: () => {
      if (size() - paced < PACE_BYTES) onSlow();
      paced = size();
    },
    before: undefined,
    behind: undefined,
  };
  underWay.add(body);
  looking ??= setInterval(lookThrough, LOOK_MS).unref();
  return () => underWay.remove(body);
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

/** Counts the pieces of one body; true once they are too small. */
export const piecesOfBody = (): ((bytes: number) => boolean) => {
  let pieces = 0;
  let size = 0;
  return (bytes) => {
    pieces += 1;
    size += bytes;
    return pieces > FREE_PIECES && size < pieces * PIECE_BYTES;
  };
};
