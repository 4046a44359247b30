// A TCP proxy in front of a service, which applies bad weather to its connections (weather.ts).

import { connect, createServer, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { carry, change, type Damage, openSky, type Sky, type Weather } from "./weather.ts";

export interface TcpProxy {
  readonly port: number;
  readonly weather: (next: Weather) => void;
  readonly damage: () => Damage;
  /** Resets every connection; returns how many there were. */
  readonly reset: () => number;
  readonly close: () => Promise<void>;
}

/** Connects `client` with the service, and passes the bytes of both directions on in order. */
const joinLine = (
  sky: Sky,
  random: () => number,
  { client, upstream, sockets }: { client: Socket; upstream: Socket; sockets: Set<Socket> },
): void => {
  const cut = (): void => {
    client.resetAndDestroy();
    upstream.resetAndDestroy();
  };
  const join = (from: Socket, to: Socket, isAnswer: boolean): void => {
    let last = Promise.resolve();
    from.on("data", (chunk: Buffer) => {
      from.pause();
      last = last.then(() => carry(sky, random, chunk, { to, isAnswer, cut })).finally(() => from.resume());
    });
    from.once("close", () => {
      sockets.delete(from);
      last = last.then(async () => {
        if (sky.weather.slowCloseMs !== undefined) {
          sky.damage.lateEnds += 1;
          await sleep(sky.weather.slowCloseMs);
        }
        to.end();
      });
    });
  };
  join(client, upstream, false);
  join(upstream, client, true);
};

/** Listens on a loopback port; calls `target` for the service's port at each connection. */
export const openProxy = async (target: () => number, random: () => number): Promise<TcpProxy> => {
  const sky = openSky();
  const sockets = new Set<Socket>();

  const server = createServer({ noDelay: true }, (client) => {
    sockets.add(client);
    client.on("error", () => undefined);
    client.once("close", () => sockets.delete(client));
    if (sky.weather.refuses === true) {
      sky.damage.refused += 1;
      return void client.resetAndDestroy();
    }
    const upstream = connect({ port: target(), host: "127.0.0.1", noDelay: true });
    sockets.add(upstream);
    upstream.on("error", () => client.resetAndDestroy());
    joinLine(sky, random, { client, upstream, sockets });
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
    weather: (next) => change(sky, next),
    damage: () => sky.damage,
    reset,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        reset();
      }),
  };
};
