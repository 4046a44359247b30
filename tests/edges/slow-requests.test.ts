// A request must arrive within a minute. The test needs that minute, so it has a file of its own.
import type { RequestListener } from "node:http";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ListeningServer, listen, mayLast } from "../../infra/http/listen.ts";
import { openHalf, untilCut } from "../support/half-open.ts";

const answer: RequestListener = (request, response) => {
  if (request.url === "/file") mayLast(request);
  let bytes = 0;
  request.on("data", (piece: Buffer) => (bytes += piece.length)).once("end", () => response.end(`${bytes} bytes`));
  request.once("error", () => undefined);
};
let server: ListeningServer;
beforeAll(async () => {
  server = await listen(answer, { host: "127.0.0.1", port: 0 });
});
afterAll(() => server.close());

test("a request has a minute to come whole, and one that may last has more", async () => {
  const seconds = 64;
  const [file, other] = [await openHalf(server.port), await openHalf(server.port)];
  const answers = [untilCut(file), untilCut(other)];
  for (const [socket, path] of [
    [file, "/file"],
    [other, "/other"],
  ] as const)
    socket.write(`PUT ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: ${seconds * 1_000}\r\n\r\n`);
  for (let n = 0; n < seconds; n += 1) {
    for (const socket of [file, other]) if (socket.writable) socket.write("x".repeat(1_000));
    await new Promise((resolve) => setTimeout(resolve, 1_000));
  }
  const [taken, cut] = await Promise.all(answers);
  expect(taken!.answer).toMatch(/^HTTP\/1\.1 200[\s\S]*64000 bytes/);
  expect(cut!.answer).toMatch(/^HTTP\/1\.1 400/);
  expect(cut!.ms).toBeGreaterThan(55_000);
});
