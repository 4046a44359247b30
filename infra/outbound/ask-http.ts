// One request to a server of this installation. Node's own client instead of fetch: fetch loads a
// second client, about 30 ms of CPU, which every command would pay.
import type { IncomingMessage, OutgoingHttpHeaders } from "node:http";

export interface HttpAnswer {
  readonly status: number;
  readonly text: string;
}

const answerOf = async (response: IncomingMessage): Promise<HttpAnswer> => {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  return { status: response.statusCode ?? 0, text: Buffer.concat(parts).toString("utf8") };
};

/** Rejects when the whole answer has not come within `timeoutMs`. Redirects are not followed. */
export const askHttp = async (
  url: URL,
  options: {
    readonly timeoutMs: number;
    readonly method?: "GET" | "POST";
    readonly headers?: OutgoingHttpHeaders;
  },
): Promise<HttpAnswer> => {
  const { request } = url.protocol === "https:" ? await import("node:https") : await import("node:http");
  const { timeoutMs, method = "GET", headers = {} } = options;
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(timeoutMs);
    const asked = request(url, { method, headers, signal, agent: false }, (response) => {
      answerOf(response).then(resolve, reject);
    });
    asked.once("error", (error) =>
      reject(signal.aborted ? new Error(`no answer within ${timeoutMs / 1_000} s`) : error),
    );
    asked.end();
  });
};
