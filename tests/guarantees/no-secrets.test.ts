// No secret is in a log line, an error or an answer, at the most verbose level: every program runs
// with canaries for all secrets, against servers that refuse and repeat what they get.
import { mkdtempSync } from "node:fs";
import { createServer as createHttpServer, type Server as HttpServer } from "node:http";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { root, spawned, until } from "../support/e2e-product.ts";
import { freePort } from "../support/ingest.ts";

const canaries = {
  secret: "cAnary1newest+Zq8vN2xR5tY7wK3mB6sD9f",
  old: "cAnary2older+Pq7vM2xR5tY8wK3nB6sD1gH",
  postgres: "cAnary3-postgres!7",
  redis: "cAnary4-redis!8",
  clickhouse: "cAnary5-clickhouse!9",
  kafka: "cAnary6-kafka!10",
  registry: "cAnary7-registry!11",
  objects: "cAnary8/objects+12",
  mail: "cAnary9-mail!13",
  token: `trb_admin_cAnary10${"x".repeat(35)}`,
};
/**
 * Each canary unchanged, and in the forms in which a program may write it: percent-encoded,
 * escaped, and in base64.
 */
const forms = Object.values(canaries).flatMap((value) => [
  value,
  encodeURIComponent(value),
  JSON.stringify(value).slice(1, -1),
  Buffer.from(value).toString("base64").replace(/=+$/, ""),
  ...["tributary_app", "user"].flatMap((user) =>
    [`${user}:${value}`, `\0${user}\0${value}`].map((text) => Buffer.from(text).toString("base64").slice(0, -4)),
  ),
]);
const leaks = (text: string): readonly string[] => {
  const lines = text.split("\n").filter((line) => forms.some((form) => line.includes(form)));
  return lines.map((line) => line.slice(0, 400));
};

const opened: (Server | HttpServer)[] = [];
const listening = async (server: Server | HttpServer): Promise<number> => {
  opened.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
};
let asked = 0;
const talking = (answer: (socket: Socket, said: Buffer) => void): Promise<number> =>
  listening(
    createServer((socket) => {
      socket.on("error", () => undefined);
      socket.on("data", (said) => {
        asked += 1;
        answer(socket, said);
      });
    }),
  );
/** Repeats the headers of the request, as careless servers and proxies do. */
const repeating = (status: number): Promise<number> =>
  listening(
    createHttpServer((request, response) => {
      asked += 1;
      const basic = /^Basic (.*)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
      const said = `${JSON.stringify(request.headers)} ${Buffer.from(basic, "base64")} ${request.url}`;
      response.writeHead(status, { "x-clickhouse-exception-code": "516" }).end(`Code: 516. Refused: ${said}`);
    }),
  );

let env: Readonly<Record<string, string | undefined>>;
beforeAll(async () => {
  const redis = await talking((socket, said) =>
    socket.write(`-ERR refused: ${said.toString().replaceAll("\r\n", " ")}\r\n`),
  );
  const postgres = await talking((socket, said) => {
    const body = Buffer.from(`${["SFATAL", "VFATAL", "C28P01", `Mrefused ${canaries.postgres}`].join("\0")}\0\0`);
    const head = Buffer.alloc(5);
    head.write("E");
    head.writeInt32BE(body.length + 4, 1);
    // The first packet may ask for TLS, which is refused.
    if (said.length === 8) socket.write("N");
    else socket.end(Buffer.concat([head, body]));
  });
  const closes = await talking((socket) => socket.destroy());
  const [clickhouse, registry, objects] = [await repeating(403), await repeating(500), await repeating(403)];
  const u = encodeURIComponent;
  env = {
    PATH: process.env.PATH,
    HOST: "127.0.0.1",
    LOG_LEVEL: "debug",
    TRIBUTARY_HOME: mkdtempSync(join(tmpdir(), "tributary-canaries-")),
    TRIBUTARY_SECRET: `${canaries.secret},${canaries.old}`,
    KAFKA_BROKERS: `kafka://user:${u(canaries.kafka)}@127.0.0.1:${closes}`,
    SCHEMA_REGISTRY_URL: `http://user:${u(canaries.registry)}@127.0.0.1:${registry}`,
    REDIS_URL: `redis://user:${u(canaries.redis)}@127.0.0.1:${redis}`,
    POSTGRES_URL: `postgres://tributary_app:${u(canaries.postgres)}@127.0.0.1:${postgres}/tributary`,
    POSTGRES_ADMIN_URL: `postgres://tributary_owner:${u(canaries.postgres)}@127.0.0.1:${postgres}/tributary`,
    CLICKHOUSE_URL: `http://user:${u(canaries.clickhouse)}@127.0.0.1:${clickhouse}/tributary`,
    OBJECT_STORE_URL: `s3://user:${u(canaries.objects)}@127.0.0.1:${objects}/bucket?tls=false`,
    SMTP_URL: `smtp://user:${u(canaries.mail)}@127.0.0.1:${closes}/?to=a@x.example`,
  };
});
afterAll(() => {
  for (const server of opened) {
    if ("closeAllConnections" in server) server.closeAllConnections();
    server.close();
  }
});

test("the search finds a canary in every form", () => {
  for (const form of forms) expect(leaks(`before ${form} after`), form).toHaveLength(1);
});

test.each([
  ["ingest", []],
  ["links", []],
  ["pixel", []],
  ["upload", []],
  ["api", []],
  ["keeper", []],
  ["worker", ["enrich,score,attribute", "settle", "analytics", "archive"]],
])(
  "%s says nothing of them while every server refuses it",
  async (app, args) => {
    const [port, opsPort] = [await freePort(), await freePort()];
    const before = asked;
    const running = spawned([`${root}/dist/apps/${app}/main.js`, ...args], {
      ...env,
      PORT: String(port),
      OPS_PORT: String(opsPort),
    });
    const asks = async (address: string, token: string): Promise<string> =>
      fetch(address, { headers: { authorization: `Bearer ${token}` }, signal: AbortSignal.timeout(3_000) }).then(
        (answer) => answer.text(),
        () => "",
      );
    const said: string[] = [];
    try {
      await until("it has met the servers", 20_000, () => {
        if (asked < before + 3 || running.stdout().length < 100) throw new Error(`${asked - before} were asked`);
      });
      for (let n = 0; n < 8; n += 1) {
        for (const path of ["readyz", "metrics"]) said.push(await asks(`http://127.0.0.1:${opsPort}/${path}`, "-"));
        for (const path of ["health", "api/health", "api/system/health", "ingest/receipts/x", "api/dlq"])
          said.push(await asks(`http://127.0.0.1:${port}/${path}`, canaries.token));
        await new Promise((resolve) => setTimeout(resolve, 400));
      }
    } finally {
      running.child.kill("SIGTERM");
      setTimeout(() => running.child.kill("SIGKILL"), 8_000).unref();
    }
    const { stdout, stderr } = await running.done;
    expect(stdout, "it logged at the most talkative level").toContain('"level":"debug"');
    expect(leaks([stdout, stderr, ...said].join("\n"))).toEqual([]);
  },
  60_000,
);

test.each([
  "doctor",
  "status",
  "migrate status",
  "migrate apply",
  "topics plan",
  "schemas apply",
  "lag",
  "probes",
  "dlq list",
  "secrets show",
  "archive --verify",
  "relearn attribute",
])(
  "tributary %s fails without a word of them",
  async (command) => {
    const { stdout, stderr } = await spawned([`${root}/dist/apps/cli/main.js`, ...command.split(" ")], env).done;
    expect(stdout + stderr).not.toBe("");
    expect(leaks(stdout + stderr)).toEqual([]);
  },
  60_000,
);

test("a wrong configuration is named without its values", async () => {
  const wrong = {
    ...env,
    REDIS_URL: `redis//${canaries.redis}`,
    OBJECT_STORE_URL: canaries.objects,
    TRIBUTARY_SECRET: `${canaries.old},short-${canaries.mail.slice(0, 4)}`,
  };
  const { code, stderr } = await spawned([`${root}/dist/apps/ingest/main.js`], wrong).done;
  expect([code, stderr.includes("REDIS_URL: "), stderr.includes("TRIBUTARY_SECRET: ")]).toEqual([2, true, true]);
  expect(leaks(stderr)).toEqual([]);
});
