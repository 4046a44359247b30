// The faults of a network line, and how bytes pass under them: delay, little bandwidth, silence,
// single bytes, answers cut short, and flipped bits.
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Faults of a line; none by default. Bytes are counted from the server to the client, over all
 * connections since the weather changed.
 */
export interface Weather {
  readonly latencyMs?: number;
  /** Added to the latency, drawn for every piece. */
  readonly jitterMs?: number;
  readonly bytesPerSecond?: number;
  /** Pieces of an answer are at most this long. */
  readonly slice?: number;
  /** Nothing passes in either direction, connections stay open. */
  readonly blackhole?: boolean;
  /** New connections are reset at once. */
  readonly refuses?: boolean;
  /**
   * The connection is reset when this many bytes of answers have passed: the request was done, its
   * acknowledgement is lost. Counting then begins again.
   */
  readonly cutAfter?: number;
  /** One bit of this byte of the answers is flipped, once. */
  readonly corruptAt?: number;
  /** When one side ends the connection, the other side sees it only after this time. */
  readonly slowCloseMs?: number;
}
/** Counts the effects of the weather since it changed, as proof that it took effect. */
export interface Damage {
  readonly delayed: number;
  readonly swallowed: number;
  readonly cut: number;
  readonly refused: number;
  readonly flipped: number;
  readonly sliced: number;
  readonly lateEnds: number;
}
/** The weather of one line, with the damage and the bytes of answers since it changed. */
export interface Sky {
  weather: Weather;
  damage: { -readonly [kind in keyof Damage]: Damage[kind] };
  passed: number;
}

const noDamage: Damage = { delayed: 0, swallowed: 0, cut: 0, refused: 0, flipped: 0, sliced: 0, lateEnds: 0 };

export const openSky = (): Sky => ({ weather: {}, damage: { ...noDamage }, passed: 0 });

/** Damage and passed bytes are counted from here on. */
export const change = (sky: Sky, weather: Weather): void => {
  Object.assign(sky, { ...openSky(), weather });
};

/** Flips one bit of the byte at `corruptAt`, once, when it lies in this piece of the answers. */
const corrupt = ({ damage }: Sky, chunk: Buffer, before: number, corruptAt: number): void => {
  if (damage.flipped > 0 || corruptAt < before || corruptAt >= before + chunk.length) return;
  chunk[corruptAt - before]! ^= 1;
  damage.flipped += 1;
};

/** Writes an answer in the pieces, and at the pace, that the weather allows. */
const writeSlowly = async (sky: Sky, chunk: Buffer, to: Socket, { slice, bytesPerSecond }: Weather): Promise<void> => {
  const size = slice ?? (bytesPerSecond === undefined ? chunk.length : Math.max(1, Math.floor(bytesPerSecond / 20)));
  for (let at = 0; at < chunk.length; at += size) {
    if (at > 0) {
      sky.damage.sliced += 1;
      await sleep(bytesPerSecond === undefined ? 0 : 50);
    }
    to.write(chunk.subarray(at, at + size));
  }
};

/** Bytes of one direction. `cut` resets both ends of the connection. */
interface Passage {
  readonly to: Socket;
  readonly isAnswer: boolean;
  readonly cut: () => void;
}

/** Passes bytes on under the weather; resolves when the sender may go on. */
export const carry = async (
  sky: Sky,
  random: () => number,
  chunk: Buffer,
  { to, isAnswer, cut }: Passage,
): Promise<void> => {
  const { weather } = sky;
  const { latencyMs = 0, jitterMs = 0, cutAfter, corruptAt } = weather;
  if (latencyMs + jitterMs > 0) {
    sky.damage.delayed += 1;
    await sleep(latencyMs + random() * jitterMs);
  }
  // The weather may have changed meanwhile.
  if (sky.weather.blackhole === true) {
    sky.damage.swallowed += chunk.length;
    return;
  }
  if (!isAnswer) return void to.write(chunk);
  const before = sky.passed;
  sky.passed += chunk.length;
  if (corruptAt !== undefined) corrupt(sky, chunk, before, corruptAt);
  if (cutAfter === undefined || sky.passed <= cutAfter) return writeSlowly(sky, chunk, to, weather);
  sky.damage.cut += 1;
  sky.passed = 0;
  to.write(chunk.subarray(0, Math.max(0, cutAfter - before)), cut);
};
