// Stands before a TCP service and makes bad weather: delay, little bandwidth, silence, resets,
// single bytes, answers cut short, slow ends, flipped bits.

import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * What is wrong with the line; nothing by default. Bytes are counted from the server to the client,
 * over all connections since the weather changed.
 */
export interface Weather {
  readonly latencyMs?: number;
  /** Added to the latency, drawn for every piece. */
  readonly jitterMs?: number;
  readonly bytesPerSecond?: number;
  /** Pieces of an answer are at most so long. */
  readonly slice?: number;
  /** Nothing passes in either direction, connections stay open. */
  readonly blackhole?: boolean;
  /** New connections are reset at once. */
  readonly refuses?: boolean;
  /**
   * The connection is reset when so many bytes of answers have passed: the request was done, its
   * acknowledgement is lost. Then it happens again.
   */
  readonly cutAfter?: number;
  /** One bit of this byte of the answers is flipped, once. */
  readonly corruptAt?: number;
  /** When one side ends, the other hears it only after so long. */
  readonly slowCloseMs?: number;
}
/** What the weather has done since it was made: the proof that it took effect. */
export interface Damage {
  readonly delayed: number;
  readonly swallowed: number;
  readonly cut: number;
  readonly refused: number;
  readonly flipped: number;
  readonly sliced: number;
  readonly lateEnds: number;
}
export interface TcpProxy {
  readonly port: number;
  readonly weather: (next: Weather) => void;
  readonly damage: () => Damage;
  /** Resets every connection; answers how many there were. */
  readonly reset: () => number;
  readonly close: () => Promise<void>;
}

const calm = { delayed: 0, swallowed: 0, cut: 0, refused: 0, flipped: 0, sliced: 0, lateEnds: 0 };

/** Listens on a loopback port; `target` is asked at each connection. */
export const openProxy = async (target: () => number, random: () => number): Promise<TcpProxy> => {
  let now: Weather = {};
  let damage = { ...calm };
  let passed = 0;
  const sockets = new Set<Socket>();

  /** Bytes of one direction, in order. Resolves when the other side takes more. */
  const carry = async (chunk: Buffer, to: Socket, isAnswer: boolean, both: () => void): Promise<void> => {
    const { latencyMs = 0, jitterMs = 0, bytesPerSecond, slice, cutAfter, corruptAt } = now;
    if (latencyMs + jitterMs > 0) {
      damage.delayed += 1;
      await sleep(latencyMs + random() * jitterMs);
    }
    if (now.blackhole === true) {
      damage.swallowed += chunk.length;
      return;
    }
    if (!isAnswer) return void to.write(chunk);
    const before = passed;
    passed += chunk.length;
    if (corruptAt !== undefined && damage.flipped === 0 && before <= corruptAt && corruptAt < passed) {
      chunk[corruptAt - before]! ^= 1;
      damage.flipped += 1;
    }
    if (cutAfter !== undefined && passed > cutAfter) {
      damage.cut += 1;
      passed = 0;
      to.write(chunk.subarray(0, Math.max(0, cutAfter - before)), both);
      return;
    }
    const size = slice ?? (bytesPerSecond === undefined ? chunk.length : Math.max(1, Math.floor(bytesPerSecond / 20)));
    for (let at = 0; at < chunk.length; at += size) {
      if (at > 0) {
        damage.sliced += 1;
        await sleep(bytesPerSecond === undefined ? 0 : 50);
      }
      to.write(chunk.subarray(at, at + size));
    }
  };

  const server = createServer({ noDelay: true }, (client) => {
    sockets.add(client);
    client.on("error", () => undefined);
    client.once("close", () => sockets.delete(client));
    if (now.refuses === true) {
      damage.refused += 1;
      return void client.resetAndDestroy();
    }
    const upstream = connect({ port: target(), host: "127.0.0.1", noDelay: true });
    sockets.add(upstream);
    upstream.on("error", () => client.resetAndDestroy());
    const both = (): void => {
      client.resetAndDestroy();
      upstream.resetAndDestroy();
    };
    const join = (from: Socket, to: Socket, isAnswer: boolean): void => {
      let last = Promise.resolve();
      from.on("data", (chunk: Buffer) => {
        from.pause();
        last = last.then(() => carry(chunk, to, isAnswer, both)).finally(() => from.resume());
      });
      from.once("close", () => {
        sockets.delete(from);
        last = last.then(async () => {
          if (now.slowCloseMs !== undefined) {
            damage.lateEnds += 1;
            await sleep(now.slowCloseMs);
          }
          to.end();
        });
      });
    };
    join(client, upstream, false);
    join(upstream, client, true);
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  const reset = (): number => {
    const count = sockets.size;
    for (const socket of sockets) socket.resetAndDestroy();
    sockets.clear();
    return count;
  };
  return {
    port: (server.address() as { port: number }).port,
    weather: (next) => {
      now = next;
      damage = { ...calm };
      passed = 0;
    },
    damage: () => damage,
    reset,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        reset();
      }),
  };
};
