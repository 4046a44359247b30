// Stands in for the API of Mercado Pago: it answers the payments that were put there, so that
// signed notices are tried without an account. Loopback only, in memory only.
import { createServer, type IncomingMessage } from "node:http";
import { refusalOf } from "../../runtime/same-machine.ts";

const ROUTE = /^\/v1\/payments\/(\d{1,20})$/;
/** A payment of the API has a few kilobytes. */
const MOST_BYTES = 64 * 1024;
const MOST_KEPT = 1_000;

type Answer = readonly [status: number, body: Buffer];
const problem = (status: number, message: string): Answer => [status, Buffer.from(JSON.stringify({ message }))];

/** Listens on loopback. */
export async function servePayments(options: {
  readonly port: number;
}): Promise<{ readonly close: () => Promise<void> }> {
  // Newest last. An account sees its own payments, so the token is a part of the key.
  const kept = new Map<string, Buffer>();
  const server = createServer((request, response) => {
    const answer = ([status, body]: Answer) =>
      response.writeHead(status, { "content-type": "application/json" }).end(body);
    answerTo(request, kept).then(answer, () => request.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, "127.0.0.1", resolve);
  });
  return {
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeIdleConnections();
      }),
  };
}

async function answerTo(request: IncomingMessage, kept: Map<string, Buffer>): Promise<Answer> {
  const { headers, method, url = "" } = request;
  const refusal = refusalOf(headers);
  if (refusal !== undefined) return problem(403, refusal);
  if (method === "GET" && url === "/health") return [200, Buffer.from("{}")];
  const [, token] = /^Bearer (\S.*)$/.exec(headers.authorization ?? "") ?? [];
  if (token === undefined) return problem(401, "send an access token: Authorization: Bearer <token>");
  const [, id] = ROUTE.exec(url) ?? [];
  if (id === undefined) return problem(404, "there is nothing here but /v1/payments/<number>");
  const key = `${id} ${token}`;
  if (method === "PUT") return put(request, key, kept);
  if (method !== "GET") return problem(405, "a payment is asked for by GET, and put here by PUT");
  const payment = kept.get(key);
  return payment === undefined ? problem(404, "no payment of this id was put here with this token") : [200, payment];
}

/** Rejects where the sender breaks off. */
async function put(request: IncomingMessage, key: string, kept: Map<string, Buffer>): Promise<Answer> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    bytes += part.length;
    // The rest is read and dropped, so that the sender gets its answer.
    if (bytes <= MOST_BYTES) parts.push(part);
  }
  if (bytes > MOST_BYTES) return problem(413, `a payment has at most ${MOST_BYTES} bytes`);
  const payment = Buffer.concat(parts);
  if (!isObject(payment)) return problem(400, "send the payment as a JSON object");
  kept.delete(key);
  kept.set(key, payment);
  const [oldest] = kept.keys();
  if (kept.size > MOST_KEPT) kept.delete(oldest!);
  return [200, payment];
}

const isObject = (text: Buffer): boolean => {
  try {
    const value: unknown = JSON.parse(text.toString());
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
};
