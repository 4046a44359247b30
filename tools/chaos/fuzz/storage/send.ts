// Sends the requests of a shape from several addresses, and counts the bytes that go over the wire.
import { Agent, type ClientRequest, request } from "node:http";
import type { Socket } from "node:net";
import { randomFrom } from "../../../../infra/runtime/random.ts";
import type { HostileRequest, Shape } from "./door.ts";

export interface Traffic {
  readonly requests: number;
  /** Request line, headers and body of every request but those that were answered 429. */
  readonly bytes: number;
  readonly statuses: ReadonlyMap<number, number>;
}
export interface SendSettings {
  readonly url: string;
  readonly seed: number;
  /** The number of the first request; the shapes of a later round go on from there. */
  readonly from: number;
  /** It stops once this many bytes are sent, or this time is over. */
  readonly mostBytes: number;
  readonly mostMs: number;
}

const LANES = 4;
const DEADLINE_MS = 30_000;
/** Limits count each address alone, and a stranger has many. */
const ADDRESSES = 16;
/** The n-th address; all are of one network. */
export const addressOf = (n: number): string => `127.0.2.${1 + (n % ADDRESSES)}`;

/** Resolves with 0 for a connection that broke. */
const ask = (agent: Agent, url: URL, from: string, { method, path, headers, body }: HostileRequest) =>
  new Promise<{ readonly status: number; readonly bytes: number }>((resolve) => {
    let socket: Socket | undefined;
    let before = 0;
    const end = (status: number): void => resolve({ status, bytes: (socket?.bytesWritten ?? 0) - before });
    const sent: ClientRequest = request(
      {
        ...{ agent, method, path, localAddress: from, host: url.hostname, port: url.port },
        headers: { ...headers, ...(body !== undefined && { "content-length": Buffer.byteLength(body) }) },
        signal: AbortSignal.timeout(DEADLINE_MS),
      },
      (answer) => {
        answer.resume().once("end", () => end(answer.statusCode ?? 0));
        answer.once("error", () => end(0));
      },
    );
    sent.once("socket", (one: Socket) => {
      socket = one;
      before = one.bytesWritten;
    });
    sent.once("error", () => end(0)).end(body);
  });

export const sendShape = async (shape: Shape, settings: SendSettings): Promise<Traffic> => {
  const { seed, from, mostBytes, mostMs } = settings;
  const url = new URL(settings.url);
  const random = randomFrom(seed);
  const agent = new Agent({ keepAlive: true, maxSockets: LANES * ADDRESSES });
  const statuses = new Map<number, number>();
  const until = performance.now() + mostMs;
  let requests = 0;
  let bytes = 0;
  const lane = async (): Promise<void> => {
    while (bytes < mostBytes && performance.now() < until) {
      const n = from + requests;
      requests += 1;
      const answer = await ask(agent, url, addressOf(n), shape.make(random, n));
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      if (answer.status !== 429) bytes += answer.bytes;
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  agent.destroy();
  return { requests, bytes, statuses };
};
