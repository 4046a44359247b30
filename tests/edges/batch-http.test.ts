// POST /ingest/batch and GET /health on real servers: the answers, the records in the log, and
// attacks that must fail.
import { mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { createToken, limitToken, revokeToken } from "../../modules/access/tokens/tokens.ts";
import {
  addedToLog,
  freePort,
  newTokens,
  pidOf,
  type RunningIngest,
  startIngest,
  whileFrozen,
} from "../support/ingest.ts";
import { expectWithin, msOf } from "../support/quickest.ts";
import { sharedStack } from "../support/shared-stack.ts";

const stack = sharedStack();
const client = stack.demo.clients[0].id as number;
/**
 * docs/design/laws.md, "Answers to any input": every answer is one of these, and a 503 says when to
 * retry.
 */
const ALLOWED = new Set([200, 202, 204, 302, 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 503]);

let ingest: RunningIngest;
let tokens: { tokenId: number; token: string }[];
let used = 0;
let left = 0;

beforeAll(async () => {
  tokens = await newTokens(stack, client, 60);
  ingest = await startIngest(stack.env);
  await ingest.ready();
});
afterAll(() => ingest.close());

/** A token that no other test uses. */
const fresh = (): string => tokens[used++]!.token;
let shared = "";
/** For tests that are not about limits: a token with room for another request. */
const anyToken = (): string => {
  if (left === 0) {
    shared = fresh();
    left = 90;
  }
  left -= 1;
  return shared;
};

const event = (over: Record<string, unknown> = {}) => ({
  t: "page_view",
  ts: Date.now() - 1_000,
  cid: client,
  did: "device-1",
  url: "https://shop.example/",
  event_id: `e-${Math.random().toString(36).slice(2)}`,
  ...over,
});
const bodyOf = (...events: unknown[]): string => JSON.stringify({ events });

const send = (
  body: string | Uint8Array | undefined,
  headers: Record<string, string> = {},
  { token = anyToken(), url = ingest.url }: { token?: string; url?: string } = {},
): Promise<Response> =>
  fetch(`${url}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: body as string }),
  });

/**
 * Sends raw bytes that no well-behaved client sends. Resolves with the status, or 0 if the
 * connection closed without an answer.
 */
const sendBytes = (...parts: readonly (string | Buffer)[]): Promise<number> =>
  new Promise((resolve) => {
    const socket = connect(Number(new URL(ingest.url).port), "127.0.0.1");
    let answer = "";
    socket.setTimeout(8_000, () => socket.destroy());
    socket.on("data", (chunk) => {
      answer += chunk;
      if (answer.includes("\r\n\r\n")) socket.end();
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0)));
    for (const part of parts) socket.write(part);
  });

describe("what is acknowledged is in the log", () => {
  test("ten thousand events are answered with their counts after all of them are in the log, each once", async () => {
    const events = Array.from({ length: 10_000 }, (_, n) =>
      event({ event_id: `many-${n}-${Date.now()}`, did: `d-${n % 500}` }),
    );
    const added = await addedToLog(stack, async () => {
      const answer = await send(bodyOf(...events));
      expect(answer.status).toBe(200);
      const said = (await answer.json()) as { readonly batch_id: string };
      expect(said).toEqual({
        accepted: 10_000,
        rejected: 0,
        errors: [],
        errors_truncated: false,
        batch_id: expect.stringMatching(/^bat_[A-Za-z0-9_-]{44}$/),
      });
      expect(answer.headers.get("link")).toBe(`</ingest/receipts/${said.batch_id}>; rel="status"`);
    });
    expect(new Set(added.map(({ sender_event_id }) => sender_event_id))).toEqual(
      new Set(events.map(({ event_id }) => event_id)),
    );
    expect(added).toHaveLength(10_000);
  });

  test("a name that is nearly a type is taken, and the answer says which type is probably meant", async () => {
    const typo = () => event({ t: "purchas", props: { order_id: "A-1", revenue: 10 } });
    const answer = (await (await send(bodyOf(typo(), event(), typo()))).json()) as Record<string, unknown>;
    expect(answer).toMatchObject({ accepted: 3, rejected: 0 });
    expect(answer.warnings).toEqual([
      {
        ...{ code: "unknown_type_taken_as_custom", t: "purchas", events: 2 },
        message: expect.stringContaining("if purchase is meant, send that"),
      },
    ]);
  });

  test.each([0, 3, 9])("a bad event at index %d is named, and the others are taken", async (bad) => {
    const events = Array.from({ length: 10 }, (_, n) =>
      n === bad ? event({ event_id: "bad-one", did: "" }) : event(),
    );
    const added = await addedToLog(stack, async () => {
      const answer = (await (await send(bodyOf(...events))).json()) as Record<string, unknown>;
      expect(answer).toMatchObject({
        accepted: 9,
        rejected: 1,
        errors: [{ index: bad, event_id: "bad-one", t: "page_view", code: "bad_did", field: "did", retryable: false }],
      });
    });
    expect(added.map(({ sender_event_id }) => sender_event_id).sort()).toEqual(
      events
        .filter((_, n) => n !== bad)
        .map(({ event_id }) => event_id)
        .sort(),
    );
  });

  test("the same id twice is two records of one event", async () => {
    const twice = event();
    const added = await addedToLog(stack, async () => {
      expect(await (await send(bodyOf(twice, twice))).json()).toMatchObject({ accepted: 2, rejected: 0 });
    });
    expect(new Set(added.map(({ event_id }) => event_id)).size).toBe(1);
  });

  test("of ten thousand bad events a thousand are listed", async () => {
    const answer = (await (await send(bodyOf(...new Array(10_000).fill(5)))).json()) as { errors: { index: number }[] };
    expect(answer).toMatchObject({ accepted: 0, rejected: 10_000, errors_truncated: true });
    expect(answer.errors.map(({ index }) => index)).toEqual(Array.from({ length: 1_000 }, (_, n) => n));
  });

  test("what a sender gave up before its end is not in the log", async () => {
    const body = bodyOf(event({ event_id: "cut-off" }));
    const head =
      `POST /ingest/batch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${anyToken()}\r\nContent-Type: ` +
      `application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
    const added = await addedToLog(stack, async () => {
      const socket = connect(Number(new URL(ingest.url).port), "127.0.0.1");
      await new Promise((resolve) => socket.write(head + body.slice(0, -2), resolve));
      await new Promise((resolve) => socket.on("close", resolve).destroy());
      expect((await send(bodyOf(event()))).status).toBe(200);
    });
    expect(added.map(({ sender_event_id }) => sender_event_id)).not.toContain("cut-off");
    expect(added).toHaveLength(1);
  });

  test("no personal data in plain text is in the log", async () => {
    const [record] = await addedToLog(stack, async () => {
      await send(
        bodyOf(event({ url: "https://shop.example/?m=luz@example.com", props: { Email: "luz@example.com" } })),
      );
    });
    expect(JSON.stringify(record)).not.toContain("luz@");
    expect(record).toMatchObject({
      source: "batch",
      warnings: ["pii_hashed"],
      ip_source: "request",
      ua_source: "request",
    });
  });
});

describe("the order of checks", () => {
  const problem = async (answer: Response) => ({
    status: answer.status,
    ...((await answer.json()) as { code: string; request_id: string }),
  });

  test("pages of other origins read the answers of batches and receipts alone", async () => {
    const origin = { origin: "https://page.example" };
    const originOf = async (method: string, path: string) => {
      const { headers } = await fetch(`${ingest.url}${path}`, { method, headers: origin });
      return headers.get("access-control-allow-origin");
    };
    for (const [method, path] of [
      ["POST", "/ingest/batch"],
      ["GET", "/ingest/receipts/b_1"],
    ] as const)
      expect([path, await originOf(method, path), await originOf("OPTIONS", path)]).toEqual([path, "*", "*"]);
    for (const [method, path] of [
      ["POST", "/admin/wal-replay"],
      ["GET", "/admin/wal-replay/r_1"],
      ["POST", "/admin/rules/1/backfill"],
      ["POST", "/pull/trigger"],
      ["GET", "/health"],
      ["POST", "/postback/generic?client_id=1"],
      ["GET", "/postback/external/a?key=b"],
      ["POST", "/postback/stripe?client_id=1"],
      ["PUT", "/upload/1/1/a.csv"],
    ] as const)
      expect([path, await originOf(method, path), await originOf("OPTIONS", path)]).toEqual([path, null, null]);
  });

  test("path, then method, then token, then kind, then size, then body", async () => {
    const nothing = { method: "POST" };
    expect(await problem(await fetch(`${ingest.url}/nothing`, nothing))).toMatchObject({
      status: 404,
      code: "not_found",
    });
    expect((await fetch(`${ingest.url}/ingest/batch/`, nothing)).status).toBe(404);
    expect((await fetch(`${ingest.url}/Ingest/batch`, nothing)).status).toBe(404);
    const wrongMethod = await fetch(`${ingest.url}/ingest/batch`, { method: "DELETE" });
    expect(wrongMethod.headers.get("allow")).toBe("POST, OPTIONS");
    expect(await problem(wrongMethod)).toMatchObject({ status: 405, code: "method_not_allowed" });
    expect((await fetch(`${ingest.url}/ingest/batch`, { method: "OPTIONS" })).status).toBe(204);
    expect(
      await problem(
        await fetch(`${ingest.url}/ingest/batch`, { ...nothing, body: "{", headers: { "content-type": "text/csv" } }),
      ),
    ).toMatchObject({ status: 401, code: "unauthorized" });
    expect(await problem(await send("{", { "content-type": "text/csv" }))).toMatchObject({
      status: 415,
      code: "unsupported_media_type",
    });
    expect(await problem(await send("{"))).toMatchObject({ status: 400, code: "bad_request" });
    expect(await problem(await send('{"events":[]}'))).toMatchObject({
      status: 400,
      code: "validation_failed",
      errors: [{ pointer: "/events" }],
    });
  });

  test("every answer bears a request id, the sender's own when it is one", async () => {
    const answer = await send("{", { "x-request-id": "order-77" });
    expect(answer.headers.get("x-request-id")).toBe("order-77");
    expect((await problem(answer)).request_id).toBe("order-77");
    expect((await send("{", { "x-request-id": "a b" })).headers.get("x-request-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(answer.headers.get("content-type")).toContain("application/problem+json");
    expect(answer.headers.get("cache-control")).toBe("no-store");
  });

  test.each([
    "",
    "Bearer",
    "Bearer x y",
    "Basic abc",
    "Bearer trb_ingest_unknown",
    `Bearer trb_ingest_${"A".repeat(43)}`,
  ])("%j opens nothing", async (authorization) => {
    const answer = await fetch(`${ingest.url}/ingest/batch`, {
      method: "POST",
      body: bodyOf(event()),
      headers: { authorization, "content-type": "application/json" },
    });
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toContain("Bearer");
  });

  test("tokens of another kind, in the address or beside a second one open nothing", async () => {
    expect((await send(bodyOf(event()), {}, { token: stack.demo.admin_token })).status).toBe(401);
    expect((await fetch(`${ingest.url}/ingest/batch?token=${anyToken()}`, { method: "POST" })).status).toBe(401);
    const doubled = await new Promise<number>((resolve) => {
      const { port } = new URL(ingest.url);
      const token = anyToken();
      httpRequest(
        {
          port,
          path: "/ingest/batch",
          method: "POST",
          headers: [
            "Host",
            "x",
            "Authorization",
            `Bearer ${token}`,
            "Authorization",
            `Bearer ${token}`,
            "Content-Length",
            "0",
          ],
        },
        (answer) => {
          answer.resume();
          resolve(answer.statusCode!);
        },
      ).end();
    });
    expect(doubled).toBe(401);
  });

  test("a revoked token opens nothing a second later", async () => {
    await expectWithin(1_500, async () => {
      const { tokenId, token } = tokens[used++]!;
      expect((await send(bodyOf(event()), {}, { token })).status).toBe(200);
      const pool = openPool(stack.env.POSTGRES_URL!, { max: 1 });
      await revokeToken(pool, tokenId);
      await pool.end();
      const isRefused = async () => expect((await send("{", {}, { token })).status).toBe(401);
      return msOf(() => until("the token is refused", 30_000, isRefused));
    });
  });
});

describe("the limit of 100 requests a minute", () => {
  const statuses = async (count: number, token: string): Promise<Record<number, number>> => {
    const answers = await Promise.all(Array.from({ length: count }, () => send(bodyOf(event()), {}, { token })));
    for (const answer of answers.filter(({ status }) => status === 429)) {
      expect(Number(answer.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
      expect(Number(answer.headers.get("retry-after"))).toBeLessThanOrEqual(5);
    }
    return answers.reduce<Record<number, number>>((counts, { status }) => {
      counts[status] = (counts[status] ?? 0) + 1;
      return counts;
    }, {});
  };

  test("of 101 requests at once exactly 100 are not refused", async () => {
    const token = fresh();
    expect(await statuses(101, token)).toEqual({ 200: 100, 429: 1 });
    expect(await statuses(5, token)).toEqual({ 429: 5 });
  });

  test("it holds over two processes", async () => {
    const token = fresh();
    const other = await startIngest(stack.env);
    try {
      await other.ready();
      const answers = await Promise.all(
        Array.from({ length: 120 }, (_, n) => send("{", {}, { token, url: n % 2 === 0 ? ingest.url : other.url })),
      );
      expect(answers.filter(({ status }) => status !== 429)).toHaveLength(100);
    } finally {
      await other.close();
    }
  });

  test("it is the token's own where another one was arranged, and a change acts within a second", async () => {
    const pool = openPool(stack.env.POSTGRES_URL!, { max: 1 });
    const wanted = { kind: "ingest", label: "own", client_id: client, requests_a_minute: 5 } as const;
    const { token, token_id } = await createToken(pool, wanted);
    await until("the token", 30_000, async () => expect((await send("{", {}, { token })).status).toBe(400));
    expect(await statuses(6, token)).toEqual({ 200: 4, 429: 2 });
    expect(await limitToken(pool, token_id, 110)).toBe(true);
    await until("the limit", 30_000, async () => {
      const answer = await send("{", {}, { token });
      expect(answer.headers.get("ratelimit-policy")).toBe('"default";q=110;w=60');
    });
    const counts = await statuses(110, token);
    expect(counts[200]).toBe(104);
    await limitToken(pool, token_id, 3);
    await until("the lower limit", 30_000, async () =>
      expect((await send("{", {}, { token })).headers.get("ratelimit-policy")).toBe('"default";q=3;w=60'),
    );
    expect((await send(bodyOf(event()), {}, { token })).status).toBe(429);
    await pool.end();
  });

  test("the answer states it before it is reached", async () => {
    const answer = await send(bodyOf(event()), {}, { token: fresh() });
    expect(answer.headers.get("ratelimit-policy")).toBe('"default";q=100;w=60');
    expect(answer.headers.get("ratelimit")).toMatch(/^"default";r=99;t=(60|59)$/);
  });

  test("it holds while Redis does not answer, and what was let through then still counts when it does", async () => {
    const token = fresh();
    await whileFrozen(pidOf(stack, "redis"), async () => {
      expect(await statuses(60, token)).toEqual({ 200: 60 });
    });
    await until("Redis answers again", 30_000, async () => {
      if (((await (await fetch(`${ingest.url}/health`)).json()) as { cache_store: string }).cache_store !== "ok")
        throw new Error("down");
    });
    const later = await statuses(60, token);
    expect(later).toEqual({ 200: 40, 429: 20 });
  });
});

describe("bodies", () => {
  test("a gzipped body is taken", async () => {
    expect(await (await send(gzipSync(bodyOf(event())), { "content-encoding": "gzip" })).json()).toMatchObject({
      accepted: 1,
    });
  });
  test.each([
    ["a gzip bomb", () => gzipSync(Buffer.alloc(200 * 1024 * 1024))],
    ["a gzip of one byte too much", () => gzipSync(Buffer.alloc(25 * 1024 * 1024 + 1))],
  ])("%s is too large", async (_, body) => {
    expect((await send(body(), { "content-encoding": "gzip" })).status).toBe(413);
  });
  test("a plain body above 25 MiB is too large, announced or not", async () => {
    const large = Buffer.alloc(25 * 1024 * 1024 + 1, 0x20);
    expect((await send(large)).status).toBe(413);
    const chunked = await fetch(`${ingest.url}/ingest/batch`, {
      method: "POST",
      headers: { authorization: `Bearer ${anyToken()}`, "content-type": "application/json" },
      body: new ReadableStream({
        pull: (controller) => {
          controller.enqueue(large);
          controller.close();
        },
      }),
      duplex: "half",
    } as RequestInit);
    expect(chunked.status).toBe(413);
  });
  test("a body that would fill the heap is refused before it is parsed", async () => {
    for (const piece of ['{"1":0},', "[],"]) {
      const began = performance.now();
      expect(
        (await send(gzipSync(`{"events":[${piece.repeat(3_000_000)}0]}`), { "content-encoding": "gzip" })).status,
      ).toBe(413);
      expect(performance.now() - began).toBeLessThan(3_000);
    }
  });
  test.each([
    ["a cut gzip", gzipSync(bodyOf(event())).subarray(0, 40), { "content-encoding": "gzip" }, 400],
    ["no gzip at all", bodyOf(event()), { "content-encoding": "gzip" }, 400],
    ["gzip in gzip", gzipSync(gzipSync(bodyOf(event()))), { "content-encoding": "gzip, gzip" }, 415],
    ["brotli", bodyOf(event()), { "content-encoding": "br" }, 415],
    ["another charset", bodyOf(event()), { "content-type": "application/json; charset=utf-16" }, 415],
    ["a form", bodyOf(event()), { "content-type": "application/x-www-form-urlencoded" }, 415],
    ["UTF-8 by name", bodyOf(event()), { "content-type": "application/json; charset=UTF-8" }, 200],
  ])("%s is answered as documented", async (_, body, headers, status) => {
    expect((await send(body as string, headers as unknown as Record<string, string>)).status).toBe(status);
  });
  test("bytes that are no HTTP request are refused", async () => {
    const auth = `Authorization: Bearer ${anyToken()}\r\nContent-Type: application/json\r\n`;
    const body = bodyOf(event());
    expect(
      await sendBytes(
        `POST /ingest/batch HTTP/1.1\r\nHost: x\r\n${auth}Content-Length: 5\r\nTransfer-Encoding: ` +
          "chunked\r\n\r\n0\r\n\r\n",
      ),
    ).toBe(400);
    expect(await sendBytes(`POST /ingest/batch HTTP/1.1\r\nHost: x\r\nX: ${"x".repeat(100_000)}\r\n\r\n`)).toBe(400);
    expect(await sendBytes("GARBAGE\r\n\r\n")).toBe(400);
    expect(await sendBytes(`POST /%zz HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n`)).toBe(404);
    expect(
      await sendBytes(
        `POST /ingest/batch HTTP/1.1\r\nHost: x\r\n${auth}Expect: magic\r\nContent-Length: ${body.length}\r\n\r\n`,
        body,
      ),
    ).toBe(200);
  });
});

describe("hostile senders", () => {
  const acceptable = async (answer: Response): Promise<void> => {
    const text = await answer.text();
    expect(ALLOWED.has(answer.status), `status ${answer.status}: ${text}`).toBe(true);
    if (answer.status === 503) expect(answer.headers.get("retry-after")).not.toBeNull();
    expect(text).not.toMatch(/at \w+ \(|node_modules|\/dist\/|select |insert /);
  };

  test.each([
    ["empty", ""],
    ["null", "null"],
    ["a list", "[]"],
    ["a text", '"x"'],
    ["NaN", "NaN"],
    ["1e400", "1e400"],
    ["10 MB of text", JSON.stringify("x".repeat(10_000_000))],
    ["depth 10^5", `{"events":${"[".repeat(100_000)}${"]".repeat(100_000)}}`],
    ["depth 10^5 in props", `{"events":[{"props":${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}}]}`],
    ["10^6 keys", `{"events":[{${Array.from({ length: 1_000_000 }, (_, n) => `"${n}":0`).join()}}]}`],
    ["duplicate keys", '{"events":[1],"events":[]}'],
    ["__proto__", '{"__proto__":{"events":[1]},"events":[{"__proto__":{"t":"x"},"props":{"constructor":1}}]}'],
    ["toString", '{"events":[{"toString":1,"valueOf":2}],"toString":3}'],
    ["U+0000", bodyOf(event({ did: "\u0000" }))],
    ["a lone surrogate", '{"events":[{"t":"\\ud800"}]}'],
    ["bad UTF-8", Buffer.concat([Buffer.from('{"events":["'), Buffer.from([0xc3, 0x28]), Buffer.from('"]}')])],
    ["right to left", bodyOf(event({ did: "\u202eevil\u200b" }))],
  ])("%s is answered, and nothing else happens", async (_, body) => {
    await acceptable(await send(body as string));
    expect(({} as Record<string, unknown>).t).toBeUndefined();
  });

  test("a valid batch with one thing changed is answered, whatever it is", async () => {
    const good = event({
      t: "purchase",
      props: { order_id: "A", revenue: 1, product_id: "S", quantity: 1, currency: "MXN", email: "a@b.mx" },
      ip: "203.0.113.1",
      ua: "x",
      consent: 1,
    });
    const hostile = fc.oneof(
      fc.jsonValue(),
      fc.constantFrom<unknown>(
        2 ** 53,
        -1,
        1e21,
        0.1 + 0.2,
        "$" + "{jndi:ldap://x}",
        "'; drop table x",
        "\r\nX: y",
        "x".repeat(70_000),
        {
          $ne: 1,
        },
      ),
    );
    const mutated = fc
      .tuple(
        fc.constantFrom(
          ...Object.keys(good),
          "props.revenue",
          "props.order_id",
          "props.quantity",
          "props.currency",
          "props.email",
        ),
        hostile,
      )
      .map(([field, value]) => {
        const props = { ...(good as unknown as { props: Record<string, unknown> }).props };
        if (!field.startsWith("props.")) return { ...good, [field]: value };
        return { ...good, props: { ...props, [field.slice(6)]: value } };
      });
    await fc.assert(
      fc.asyncProperty(fc.array(mutated, { minLength: 1, maxLength: 20 }), async (events) => {
        const answer = await send(bodyOf(...events));
        expect(answer.status).toBe(200);
        const { accepted, rejected, errors } = (await answer.json()) as {
          accepted: number;
          rejected: number;
          errors: unknown[];
        };
        expect([accepted + rejected, errors.length]).toEqual([events.length, rejected]);
      }),
      { numRuns: 150 },
    );
  });

  test("a body with one byte changed, plain or gzipped, is answered", async () => {
    const plain = Buffer.from(bodyOf(event(), event({ props: { a: { b: ["x"] } } })));
    const packed = gzipSync(plain);
    await fc.assert(
      fc.asyncProperty(fc.boolean(), fc.nat(10_000), fc.integer({ min: 0, max: 255 }), async (isPacked, at, byte) => {
        const bytes = Buffer.from(isPacked ? packed : plain);
        bytes[at % bytes.length] = byte;
        await acceptable(await send(bytes, isPacked ? { "content-encoding": "gzip" } : {}));
      }),
      { numRuns: 150 },
    );
  });

  test("the same request is answered the same way again", async () => {
    const body = bodyOf(event(), 5, event({ did: "" }));
    const answers = await Promise.all(
      [send(body), send(body)].map(async (answer) => ({ ...((await (await answer).json()) as object), batch_id: "" })),
    );
    expect(answers[0]).toEqual(answers[1]);
  });
});

describe("servers that are away", () => {
  test(
    "without the log events are kept on the disk and answered, and go into the log in their order " + "when it is back",
    async () => {
      const ids = Array.from({ length: 8 }, (_, n) => `kept-${n}-${Date.now()}`);
      const added = await addedToLog(stack, async () => {
        await whileFrozen(pidOf(stack, "kafka"), async () => {
          const began = performance.now();
          expect((await send(bodyOf(event({ event_id: ids[0] })))).status).toBe(200);
          // The first request waits for the log; the others are written to the disk at once,
          // because an event waits there.
          expect(performance.now() - began).toBeGreaterThan(1_900);
          for (const id of ids.slice(1)) expect((await send(bodyOf(event({ event_id: id })))).status).toBe(200);
          const health = await fetch(`${ingest.url}/health`);
          expect(health.status).toBe(503);
          expect(await health.json()).toMatchObject({
            status: "down",
            backbone: "down",
            analytics_store: "ok",
            failover: { active: true, path: "standby", spooled_events: ids.length, last_resort_events: 0 },
            recovery: { health_check: { wal_ok: false } },
          });
          expect((await fetch(`${ingest.opsUrl}/readyz`)).status).toBe(200);
        });
        await until("nothing waits any more", 60_000, async () => {
          const report = (await (await fetch(`${ingest.url}/health`)).json()) as {
            failover: { active: boolean; spooled_events: number };
          };
          if (report.failover.active) throw new Error(JSON.stringify(report.failover));
        });
        expect((await send(bodyOf(event({ event_id: "after" })))).status).toBe(200);
      });
      expect([...new Set(added.map(({ sender_event_id }) => sender_event_id))]).toEqual([...ids, "after"]);
    },
  );

  test(
    "without the registry from the start events are kept, and go into the log under the id of their " +
      "schema once it is known",
    async () => {
      const registry = new URL(stack.env.SCHEMA_REGISTRY_URL!);
      const port = await freePort();
      const alone = await startIngest({ ...stack.env, SCHEMA_REGISTRY_URL: `http://127.0.0.1:${port}` });
      const proxy = createServer((inward) => {
        const outward = connect(Number(registry.port), registry.hostname);
        for (const socket of [inward, outward]) socket.on("error", () => undefined);
        inward.pipe(outward).pipe(inward);
      });
      try {
        await alone.ready();
        const added = await addedToLog(stack, async () => {
          for (const id of ["nameless-1", "nameless-2"])
            expect((await send(bodyOf(event({ event_id: id })), {}, { url: alone.url })).status).toBe(200);
          const report = (await (await fetch(`${alone.url}/health`)).json()) as object;
          expect(report).toMatchObject({
            status: "degraded",
            failover: { active: true, path: "standby", spooled_events: 2 },
          });
          await new Promise<void>((resolve) => proxy.listen(port, "127.0.0.1", resolve));
          await until("nothing waits any more", 60_000, async () => {
            const { failover } = (await (await fetch(`${alone.url}/health`)).json()) as {
              failover: { active: boolean };
            };
            if (failover.active) throw new Error(JSON.stringify(failover));
          });
        });
        expect(added.map(({ sender_event_id }) => sender_event_id)).toEqual(["nameless-1", "nameless-2"]);
      } finally {
        await alone.close();
        proxy.close();
      }
    },
  );

  test("without the log and the disk they go to object storage; without that senders get a time to retry", async () => {
    const home = mkdtempSync(join(tmpdir(), "edge-"));
    const [spool, away] = [join(home, "spool"), join(home, "spool-away")];
    const objects = join(home, "objects");
    const poor = await startIngest({
      ...stack.env,
      TRIBUTARY_HOME: home,
      OBJECT_STORE_URL: pathToFileURL(objects).href,
    });
    const sendPoor = (id: string) => send(bodyOf(event({ event_id: id })), {}, { url: poor.url });
    try {
      await poor.ready();
      const added = await addedToLog(stack, async () => {
        await whileFrozen(pidOf(stack, "kafka"), async () => {
          // A file stands in the place of the disk.
          renameSync(spool, away);
          writeFileSync(spool, "");
          for (const id of ["last-1", "last-2", "last-3"]) expect((await sendPoor(id)).status).toBe(200);
          expect(await (await fetch(`${poor.url}/health`)).json()).toMatchObject({
            failover: { active: true, path: "both_down", spooled_events: 0, last_resort_events: 3 },
          });
          renameSync(objects, `${objects}-away`);
          writeFileSync(objects, "");
          const refused = await sendPoor("refused");
          expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "2"]);
          // The next request is refused before its body is read.
          expect((await sendPoor("refused")).status).toBe(503);
          expect((await fetch(`${poor.opsUrl}/readyz`)).status).toBe(503);
          for (const [file, folder] of [
            [objects, `${objects}-away`],
            [spool, away],
          ] as const) {
            rmSync(file);
            renameSync(folder, file);
          }
        });
        await until("nothing waits any more", 60_000, async () => {
          const { failover } = (await (await fetch(`${poor.url}/health`)).json()) as {
            failover: { active: boolean };
          };
          if (failover.active) throw new Error(JSON.stringify(failover));
        });
      });
      const ids = [...new Set(added.map(({ sender_event_id }) => sender_event_id))];
      expect(ids.filter((id) => id !== "refused")).toEqual(["last-1", "last-2", "last-3"]);
      expect(readdirSync(join(objects, "last-resort", poor.name))).toEqual([]);
    } finally {
      await poor.close();
      rmSync(home, { recursive: true });
    }
  });

  test("without Postgres from the start requests get a time to retry, and the process lives", async () => {
    const lonely = await startIngest({
      ...stack.env,
      POSTGRES_URL: `postgres://none:none@127.0.0.1:${await freePort()}/none`,
    });
    try {
      const answer = await send(bodyOf(event()), {}, { url: lonely.url });
      expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "2"]);
      expect((await fetch(`${lonely.opsUrl}/livez`)).status).toBe(200);
      expect((await fetch(`${lonely.opsUrl}/readyz`)).status).toBe(503);
      expect(await (await fetch(`${lonely.url}/health`)).json()).toMatchObject({
        status: "down",
        relational_store: "down",
        backbone: "ok",
      });
    } finally {
      await lonely.close();
    }
  });

  test("when Postgres goes away later, known tokens go on", async () => {
    const target = new URL(stack.env.POSTGRES_URL!);
    const sockets = new Set<Socket>();
    const proxy = createServer((inward) => {
      const outward = connect(Number(target.port), target.hostname);
      for (const socket of [inward, outward]) sockets.add(socket.on("error", () => undefined));
      inward.pipe(outward).pipe(inward);
    });
    const port = await freePort();
    await new Promise<void>((resolve) => proxy.listen(port, "127.0.0.1", resolve));
    const through = new URL(target);
    through.port = String(port);
    const dependent = await startIngest({ ...stack.env, POSTGRES_URL: through.href });
    try {
      await dependent.ready();
      proxy.close();
      for (const socket of sockets) socket.destroy();
      await until("the store is down", 30_000, async () => {
        const report = (await (await fetch(`${dependent.url}/health`)).json()) as { relational_store: string };
        if (report.relational_store !== "down") throw new Error("still there");
      });
      expect((await send(bodyOf(event()), {}, { url: dependent.url })).status).toBe(200);
    } finally {
      await dependent.close();
    }
  });

  test("who is being answered when the process closes is answered", async () => {
    const short = await startIngest(stack.env);
    await short.ready();
    const body = bodyOf(...Array.from({ length: 10_000 }, () => event()));
    const added = await addedToLog(stack, async () => {
      const answered = new Promise<string>((resolve, reject) => {
        const headers = {
          authorization: `Bearer ${anyToken()}`,
          "content-type": "application/json",
          expect: "100-continue",
        };
        const request = httpRequest(`${short.url}/ingest/batch`, { method: "POST", headers }, async (answer) => {
          let text = "";
          for await (const chunk of answer) text += chunk;
          resolve(text);
        });
        // The server has accepted the request, and closes before the body has come.
        request.on("error", reject).on("continue", () => {
          const closed = short.close();
          request.end(body);
          closed.catch(reject);
        });
        request.flushHeaders();
      });
      expect(JSON.parse(await answered)).toMatchObject({ accepted: 10_000 });
    });
    expect(added).toHaveLength(10_000);
  });
});

describe("health", () => {
  test("the report has every field of the specification", async () => {
    const answer = await fetch(`${ingest.url}/health`);
    const report = (await answer.json()) as Record<string, unknown>;
    expect(report).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+$/),
      uptime_sec: expect.any(Number),
      analytics_store: "ok",
      cache_store: "ok",
      relational_store: "ok",
      backbone: "ok",
      buffer_events: expect.any(Number),
      dlq_depth: { clicks: 0, pixel: 0, s2s: expect.any(Number) },
      last_pull_at: null,
      last_pull_stats: { errors: 0 },
      failover: { active: false, path: "primary", spooled_events: 0, last_resort_events: 0, oldest_sec: 0 },
      // No worker runs here, so nothing is archived; tests/guarantees/archive.test.ts tests this
      // field.
      recovery: {
        health_check: { analytics_ok: true, wal_ok: expect.any(Boolean), relational_ok: true, cache_ok: true },
      },
      time_zone_data: expect.stringMatching(/^20\d\d[a-z]$/),
    });
    expect(answer.status).toBe(200);
  });

  test("an open dead letter makes it degraded, with the kind counted", async () => {
    const kafka = openKafka({ brokers: stack.env.KAFKA_BROKERS!, clientId: "test" });
    const [producer, admin] = [kafka.producer(), await kafka.admin()];
    const depth = async (pixel: number, status: string): Promise<void> => {
      const answer = await fetch(`${ingest.url}/health`);
      const report = (await answer.json()) as {
        status: string;
        dlq_depth: { clicks: number; pixel: number; s2s: number };
        recovery: { health_check: { wal_ok: boolean } };
      };
      // No worker runs here, so the archive falls behind while this file runs, and files that share
      // this installation leave letters of servers.
      const { clicks, s2s } = report.dlq_depth;
      const expected = report.recovery.health_check.wal_ok && clicks + s2s === 0 ? status : "degraded";
      expect([answer.status, report.status, report.dlq_depth.pixel]).toEqual([200, expected, pixel]);
    };
    try {
      await producer.send([{ topic: "pixel.dlq", key: null, value: Buffer.from("{") }]);
      await until("the letter is counted", 30_000, () => depth(1, "degraded"));
    } finally {
      await admin.deleteRecords(
        "pixel.dlq",
        new Map((await admin.watermarks("pixel.dlq")).map(({ partition, high }) => [partition, high])),
      );
      await Promise.all([producer.close(), admin.close()]);
    }
    await until("the letter is gone", 30_000, () => depth(0, "ok"));
  });

  test("it has no limit, and takes no other method", async () => {
    const answers = await Promise.all(Array.from({ length: 300 }, () => fetch(`${ingest.url}/health`)));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect((await fetch(`${ingest.url}/health`, { method: "HEAD" })).status).toBe(200);
    expect((await fetch(`${ingest.url}/health`, { method: "POST" })).headers.get("allow")).toBe("GET, HEAD, OPTIONS");
  });
});
