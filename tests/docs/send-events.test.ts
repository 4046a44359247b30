// The samples of docs/send-events.md against an edge that fails like real ones: each keeps its
// events, waits as the page says, and sends the same bytes until they are accepted.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { acceptsBatch, admitBatch } from "../../processors/admit/batch.ts";
import { languages, runSample, type Sample, samplesOf } from "../support/page-samples.ts";

const { all, runnable } = samplesOf("docs/send-events.md");
/** The first sample is one command; the others send until everything is accepted. */
const senders = runnable.filter(({ language }) => language !== "sh");

interface Came {
  readonly at: number;
  readonly body: string;
  readonly authorization: string | undefined;
}
type Answer = (response: ServerResponse, request: IncomingMessage) => void;
const status =
  (code: number, headers: Readonly<Record<string, string>> = {}): Answer =>
  (response) =>
    void response.writeHead(code, headers).end('{"detail":"as the test says"}');
const broken: Answer = (_, { socket }) => void socket.destroy();
const taken: Answer = (response) =>
  void response.writeHead(200).end('{"accepted":1,"rejected":0,"errors":[],"batch_id":"bat_test"}');

/**
 * Answers in order, by the first part of the path; when none is left, every request is accepted.
 */
const plans = new Map<string, Answer[]>();
const came = new Map<string, Came[]>();
const server = createServer(async (request, response) => {
  const [, name = ""] = request.url!.split("/");
  const body = await text(request);
  const seen = came.get(name) ?? [];
  came.set(name, [...seen, { at: performance.now(), body, authorization: request.headers.authorization }]);
  (plans.get(name)?.[seen.length] ?? taken)(response, request);
});
let url: string;
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => new Promise((resolve) => server.close(resolve)));

const run = (sample: Sample, name: string, answers: readonly Answer[] = [], more: Record<string, string> = {}) => {
  plans.set(name, [...answers]);
  return runSample(sample, { INGEST_URL: `${url}/${name}`, INGEST_TOKEN: "ing_test", CLIENT_ID: "7", ...more });
};
const facts = {
  ...{ clientId: 7, segments: [], consentDefault: 0xff, isClientSide: false },
  identify: identifyFor(pepperOf("a secret of the installation", 7), 100),
};
const admitted = (body: string) => {
  const arrival = { receivedAt: Date.now(), sender: "7", address: null, header: () => undefined };
  return [...admitBatch(acceptsBatch(body), arrival, facts)];
};

test("the page shows one command, and a sender in each language", () =>
  expect(all.map(({ language }) => language)).toEqual(languages));

test.each(runnable)(
  "what the sample in $language sends is taken by the edge, with an id of its own",
  async (sample) => {
    const name = `taken-${sample.language}`;
    expect(await run(sample, name)).toMatchObject({ code: 0, stdout: expect.stringMatching(/accepted.*1/) });
    const [{ body, authorization } = { body: "", authorization: "" }] = came.get(name)!;
    expect(authorization).toBe("Bearer ing_test");
    expect(admitted(body)).toEqual([
      expect.objectContaining({
        kind: "accepted",
        data: expect.objectContaining({
          t: "purchase",
          sender_event_id: expect.stringMatching(/^order-/),
          warnings: [],
        }),
      }),
    ]);
  },
);

describe.concurrent.each(senders)("the sender in $language", (sample) => {
  const { language } = sample;

  test("sends the same bytes again after 429, 503 and a broken connection, and waits in between", async () => {
    const name = `failing-${language}`;
    const answers = [status(503), broken, status(429, { "retry-after": "5" })];
    expect(await run(sample, name, answers)).toMatchObject({ code: 0, stdout: expect.stringContaining("bat_test") });
    const requests = came.get(name)!;
    expect(requests).toHaveLength(4);
    expect(new Set(requests.map(({ body }) => body)).size).toBe(1);
    const waits = requests.slice(1).map(({ at }, n) => at - requests[n]!.at);
    for (const [n, ms] of [1_000, 2_000, 5_000].entries()) expect(waits[n]).toBeGreaterThan(ms * 0.95);
  });

  test("ends when another try would be refused too, says why, and keeps its events for the next run", async () => {
    const name = `refused-${language}`;
    const BUFFER = mkdtempSync(join(tmpdir(), "buffer-"));
    try {
      const { code, stderr } = await run(sample, name, [status(401)], { BUFFER });
      expect([code === 0, stderr]).toEqual([false, expect.stringContaining("as the test says")]);
      expect([came.get(name)!.length, readdirSync(BUFFER).length]).toEqual([1, 1]);
      expect(await run(sample, name, [], { BUFFER })).toMatchObject({ code: 0 });
      expect([came.get(name)!.length, readdirSync(BUFFER)]).toEqual([2, []]);
    } finally {
      rmSync(BUFFER, { recursive: true });
    }
  });
});
