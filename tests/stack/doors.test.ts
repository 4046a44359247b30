// Every socket of the stack: who may connect, and that no web page may.
import { readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { askRedis } from "../../infra/embedded/services/redis.ts";
import type { Stack } from "../../infra/embedded/supervisor.ts";
import { workshop } from "./home-for-test.ts";

const here = workshop();
let stack: Stack;
let secrets: Readonly<Record<string, string>>;
beforeAll(async () => {
  stack = await here.start();
  secrets = JSON.parse(readFileSync(join(here.home, "secrets.json"), "utf8"));
});
afterAll(() => here.clear());

interface Answer {
  readonly status: number;
  readonly text: string;
}
/** Sends the request of a browser or of curl; `fetch` does not let us name another host. */
const ask = (
  url: string,
  headers: Readonly<Record<string, string>> = {},
  { method = "GET", body = "" }: { readonly method?: string; readonly body?: string } = {},
): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const asked = request(url, { method, headers, agent: false }, (answer) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      answer.once("end", () => resolve({ status: answer.statusCode!, text }));
    });
    asked.once("error", reject);
    asked.end(body);
  });

const FOREIGN = { host: "pages.example" };
const PAGE = { origin: "https://pages.example" };

describe("ClickHouse", () => {
  const address = () => new URL(stack.env.CLICKHOUSE_URL!);
  const asUser = (user: string, password: string) => ({
    authorization: `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`,
  });
  const owner = () => asUser("tributary_owner", secrets.clickhouseOwner!);
  const app = () => asUser("tributary_app", secrets.clickhouseApp!);
  const query = (sql: string, headers: Readonly<Record<string, string>>, method = "POST") =>
    method === "GET"
      ? ask(`${address().origin}/?query=${encodeURIComponent(sql)}`, headers)
      : ask(`${address().origin}/?database=tributary`, headers, { method, body: sql });

  beforeAll(async () => {
    await query("CREATE TABLE doors (n UInt8) ENGINE = MergeTree ORDER BY n", owner());
  });

  test("answers neither without a password nor with a wrong one, and the default user is none", async () => {
    for (const headers of [{}, asUser("default", ""), asUser("tributary_owner", "wrong"), asUser("tributary_app", "")])
      expect(await query("SELECT 42", headers)).toEqual({
        status: 403,
        text: expect.stringMatching(/^Code: 516\..*AUTHENTICATION_FAILED/),
      });
    expect(await query("SELECT 42", owner())).toEqual({ status: 200, text: "42\n" });
    expect((await ask(`${address().origin}/?query=SELECT+42&user=default`)).status).toBe(403);
  });

  test("keeps its passwords in files of the owner of the home alone", () => {
    for (const file of ["secrets.json", "run.json"]) expect(statSync(join(here.home, file)).mode & 0o077).toBe(0);
  });

  test("changes nothing for GET, and nothing but rows for an app", async () => {
    expect(await query("INSERT INTO tributary.doors VALUES (1)", owner(), "GET")).toMatchObject({
      text: expect.stringContaining("READONLY"),
    });
    expect(await query("DROP TABLE tributary.doors", owner(), "GET")).toMatchObject({
      text: expect.stringContaining("READONLY"),
    });
    for (const sql of [
      "DROP TABLE doors",
      "ALTER TABLE doors DELETE WHERE 1",
      "CREATE TABLE mine (n UInt8) ENGINE = Memory",
      "WITH one AS (SELECT 1 AS n) INSERT INTO doors SELECT n FROM one",
      "SYSTEM SHUTDOWN",
    ])
      expect((await query(sql, app())).text, sql).toMatch(/ACCESS_DENIED|READONLY/);
    for (const sql of [
      "INSERT INTO doors VALUES (1); DROP TABLE doors",
      "SELECT 1; DROP TABLE doors",
      "SELECT 1; USE system",
    ])
      expect((await query(sql, app())).text, sql).toContain("Multi-statements are not allowed");
    // Even if the text deceives the check of it, the engine lets this connection change no table.
    expect((await query("SELECT 1 # '\n; DROP TABLE doors -- '", app())).text).not.toBe("");
    expect((await query("INSERT INTO doors SELECT 7", app())).status).toBe(200);
    expect((await query("SELECT sum(n) FROM doors", app())).text).toBe("7\n");
  });

  test("reads and writes no file and asks no other server, not even for the owner", async () => {
    const file = join(here.home, "stolen.txt");
    writeFileSync(file, "stolen\n");
    for (const sql of [
      `SELECT * FROM file('${file}', 'RawBLOB')`,
      `SELECT file('${file}')`,
      `SELECT \`file\` /* */ ('${file}')`,
      `SELECT "fil\\x65"('${file}')`,
      `SELECT * FROM default.\`${file}\``,
      `INSERT INTO doors FROM INFILE '${file}' FORMAT CSV`,
      `SELECT 1 INTO OUTFILE '${file}.2'`,
      "SELECT * FROM url('http://127.0.0.1:1/', 'RawBLOB')",
      "SELECT * FROM s3('http://127.0.0.1:1/bucket/key', 'CSV', 'a Int8')",
      "SELECT * FROM remote('127.0.0.1:1', 'system.one')",
      "SELECT * FROM postgresql('127.0.0.1:1', 'd', 't', 'u', 'p')",
      `SELECT * FROM sqlite('${file}', 't')`,
      `CREATE TABLE f (a String) ENGINE = File(CSV, '${file}')`,
      "CREATE TABLE u (a String) ENGINE = URL('http://127.0.0.1:1/', 'CSV')",
      `INSERT INTO FUNCTION file('${file}.3', 'CSV', 'a Int8') VALUES (1)`,
      "CREATE USER mine",
      "SYSTEM SHUTDOWN",
    ])
      expect(await query(sql, owner()), sql).toMatchObject({
        status: 403,
        text: expect.stringContaining("ACCESS_DENIED"),
      });
    const client = createClient({ url: stack.env.CLICKHOUSE_URL!, log: { level: ClickHouseLogLevel.OFF } });
    const asked = client.query({ query: `SELECT {f:Identifier}('${file}')`, query_params: { f: "file" } });
    await expect(asked).rejects.toMatchObject({ code: "497" });
    await client.close();
    expect(readdirSync(here.home).filter((name) => name.startsWith("stolen"))).toEqual(["stolen.txt"]);
  });
});

describe("Redis", () => {
  const as = (user: string, password: string): string => {
    const url = new URL(stack.env.REDIS_URL!);
    url.username = user;
    url.password = password;
    return url.href;
  };
  const app = (command: string) => askRedis(as("tributary_app", secrets.redisApp!), command);

  test("answers neither without a password nor with a wrong one, and the default user is none", async () => {
    expect(await askRedis(as("", ""), "PING")).toMatch(/^-NOAUTH/);
    expect(await askRedis(as("tributary_app", "wrong"), "PING")).toMatch(/^-WRONGPASS/);
    expect(await askRedis(as("default", "x"), "PING")).toMatch(/^-WRONGPASS/);
    expect(await app("PING")).toBe("+PONG\r\n");
  });

  test("lets an app neither empty it, nor set it up, nor look at others", async () => {
    expect(await app("SET doors 1")).toBe("+OK\r\n");
    for (const command of [
      "FLUSHALL",
      "FLUSHDB",
      "CONFIG GET requirepass",
      "CONFIG SET maxmemory 1",
      "DEBUG SLEEP 0",
      "KEYS *",
      "MONITOR",
      "SHUTDOWN NOSAVE",
      "SAVE",
      "ACL LIST",
      "CLIENT LIST",
      "REPLICAOF 127.0.0.1 1",
      "MIGRATE 127.0.0.1 1 doors 0 1000",
      "SWAPDB 0 1",
      "SCRIPT FLUSH",
    ])
      expect(await app(command), command).toMatch(/^-NOPERM|^-ERR DEBUG command not allowed/);
    expect(await app("EVAL \"return redis.call('flushall')\" 0")).toMatch(/^-.*(?:permission|NOPERM)/i);
    expect(await app("GET doors")).toBe("$1\r\n1\r\n");
    expect(await askRedis(stack.env.REDIS_URL!, "FLUSHALL")).toBe("+OK\r\n");
  });

  test("is not older than what is packed, unless this machine brings its own", async () => {
    const info = await askRedis(stack.env.REDIS_URL!, "INFO server");
    const [program, version] = [/executable:(\S+)/, /redis_version:(\d+)/].map((line) => line.exec(info)![1]!);
    if (program!.includes("/.tributary/jars/")) expect(Number(version)).toBeGreaterThanOrEqual(7);
    else expect(program).toMatch(/(?:redis|valkey)-server$/);
  });
});

test("no server of HTTP answers a request for another host or from a page", async () => {
  const { CLICKHOUSE_URL, SCHEMA_REGISTRY_URL, OIDC_ISSUER, MERCADOPAGO_URL } = stack.env;
  const user = {
    authorization: `Basic ${Buffer.from(`tributary_owner:${secrets.clickhouseOwner}`).toString("base64")}`,
  };
  const account = { authorization: "Bearer of-an-account" };
  const paid = { method: "PUT", body: "{}" };
  for (const [headers, status] of [
    [{}, 401],
    [{ ...account, ...FOREIGN }, 403],
    [{ ...account, ...PAGE }, 403],
    [account, 200],
  ] as const)
    expect((await ask(`${MERCADOPAGO_URL}/v1/payments/77`, headers, paid)).status).toBe(status);
  const doors: readonly [string, Readonly<Record<string, string>>][] = [
    [`${new URL(CLICKHOUSE_URL!).origin}/ping`, {}],
    [`${new URL(CLICKHOUSE_URL!).origin}/?query=SELECT+1`, user],
    [`${SCHEMA_REGISTRY_URL}/subjects`, {}],
    [`${OIDC_ISSUER}/.well-known/openid-configuration`, {}],
    [`${MERCADOPAGO_URL}/health`, {}],
    [`${MERCADOPAGO_URL}/v1/payments/77`, account],
    [`${stack.run.control.url}/processes`, { authorization: `Bearer ${stack.run.control.token}` }],
  ];
  for (const [url, headers] of doors) {
    expect((await ask(url, headers)).status, url).toBe(200);
    expect((await ask(url, { ...headers, ...FOREIGN })).status, url).toBe(403);
    expect((await ask(url, { ...headers, ...PAGE })).status, url).toBe(403);
    expect((await ask(url, { ...headers, origin: "null" })).status, url).toBe(403);
  }
});

/** The answer of a server of another protocol to a page's request; it must close the connection. */
const sendPage = (port: number, text: string): Promise<string> =>
  new Promise((resolve, reject) => {
    let answer = "";
    const socket = connect({ port, host: "127.0.0.1", timeout: 5_000 }, () => socket.write(text));
    socket.on("data", (part) => {
      answer += part.toString("latin1");
    });
    socket.once("timeout", () => reject(new Error("the connection stayed open")));
    socket.once("error", () => resolve(answer));
    socket.once("close", () => resolve(answer));
    socket.once("close", () => socket.destroy());
  });

test("servers of other protocols close on a page's request, and take no command out of it", async () => {
  const mails = () => readdirSync(join(here.home, "mail"));
  const before = mails();
  const ports: readonly [string, number, string][] = [
    ["kafka", Number(stack.env.KAFKA_BROKERS!.split(":")[1]), "PING"],
    ["postgres", Number(new URL(stack.env.POSTGRES_URL!).port), "SELECT 1"],
    ["redis", Number(new URL(stack.env.REDIS_URL!).port), "SET stolen 1"],
    ["mail", Number(new URL(stack.env.SMTP_URL!).port), "MAIL FROM:<a@pages.example>"],
  ];
  for (const [name, port, command] of ports) {
    const text = `POST / HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nOrigin: https://pages.example\r\n\r\n${command}\r\n`;
    expect(await sendPage(port, text), name).not.toMatch(/\+OK|250 /);
  }
  expect(mails()).toEqual(before);
});

/** The addresses on which a process listens, from the kernel's own table. */
const listening = (pid: number): readonly string[] => {
  const sockets = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return [];
      }
    }),
  );
  const addressOf = (hex: string): string => {
    const [address, port] = hex.split(":");
    const bytes = Buffer.from(address!, "hex");
    const isLoopback =
      bytes.length === 4 ? bytes[3] === 127 : ["", "00000000000000000000000001000000"].includes(address!);
    const isMapped = bytes.length === 16 && address!.startsWith("0000000000000000FFFF0000") && bytes[15] === 127;
    return `${isLoopback || isMapped ? "loopback" : address}:${Number.parseInt(port!, 16)}`;
  };
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/net/${table}`, "utf8")
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter((fields) => fields[3] === "0A" && sockets.has(fields[9]!))
      .map((fields) => addressOf(fields[1]!)),
  );
};

test.runIf(process.platform === "linux")("all sockets are known, and lie on the loopback", () => {
  const ports = JSON.parse(readFileSync(join(here.home, "ports.json"), "utf8")) as Record<string, number>;
  const known = new Set([
    ...Object.values(ports).map((port) => `loopback:${port}`),
    `loopback:${new URL(stack.run.control.url).port}`,
  ]);
  const open = [process.pid, ...Object.keys(stack.run.services).flatMap((name) => stack.pid(name) ?? [])]
    .flatMap(listening)
    // The test runner listens too, and is no part of the stack.
    .filter((address) => known.has(address) || !listening(process.pid).includes(address));
  expect(open.length).toBeGreaterThanOrEqual(8);
  expect(open.filter((address) => !known.has(address))).toEqual([]);
});
