// A broken connection to the log leaves nothing behind. The client's own connection talks to a
// server that is written by hand.
import { once } from "node:events";
import { createRequire } from "node:module";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { correctedClient } from "../../infra/kafka/client/kafkajs-corrected.ts";

correctedClient();
const inside = createRequire(import.meta.url);
const Connection = inside("kafkajs/src/network/connection.js");
const socketFactory = inside("kafkajs/src/network/socketFactory.js")();

const quiet = {
  namespace: () => quiet,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
const answered = { decode: async (payload: Buffer) => payload, parse: async (payload: Buffer) => payload.toString() };
const question = { apiKey: 18, apiName: "Question", apiVersion: 0, encode: async () => ({ buffer: Buffer.from("?") }) };

/** A frame of a broker: its size, the number of the request, and the answer. */
const frameOf = (number: number, answer: string): Buffer => {
  const frame = Buffer.alloc(8 + answer.length);
  frame.writeInt32BE(4 + answer.length, 0);
  frame.writeInt32BE(number, 4);
  frame.write(answer, 8);
  return frame;
};

const open: { readonly close: () => void }[] = [];
afterEach(() => {
  for (const one of open.splice(0)) one.close();
});
/** Calls `answers[n]` with the number of each request on the n-th connection. */
const connectionTo = async (answers: readonly ((number: number, socket: Socket) => void)[]) => {
  let connections = 0;
  const server: Server = createServer((socket) => {
    const answer = answers[connections++]!;
    socket.on("error", () => undefined);
    socket.on("data", (frame) => answer(frame.readInt32BE(8), socket));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const connection = new Connection({
    ...{ host: "127.0.0.1", port: (server.address() as AddressInfo).port, logger: quiet, socketFactory },
    ...{ requestTimeout: 5_000, connectionTimeout: 5_000, clientId: "test" },
  });
  open.push({ close: () => void connection.disconnect().finally(() => server.close()) });
  await connection.connect();
  return connection;
};
const ask = (connection: any): Promise<string> => connection.send({ request: question, response: answered });

test.each([1, 3, 4, 6, 9, 20])("an answer that was cut after %i bytes is no part of the next one", async (bytes) => {
  const connection = await connectionTo([
    (number, socket) => {
      socket.write(frameOf(number, "the first answer, which is cut").subarray(0, bytes), () => socket.destroy());
    },
    (number, socket) => void socket.write(frameOf(number, "the second")),
  ]);
  await expect(ask(connection)).rejects.toThrow();
  await connection.connect();
  expect(await ask(connection)).toBe("the second");
});

test("bytes that are no answer fail the request, and nothing else", async () => {
  const connection = await connectionTo([
    (_, socket) => void socket.write(Buffer.from([0, 0, 0, 1, 7])),
    (number, socket) => void socket.write(frameOf(number, "the second")),
  ]);
  await expect(ask(connection)).rejects.toThrow();
  await connection.connect();
  expect(await ask(connection)).toBe("the second");
});
