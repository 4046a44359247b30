// The whole embedded stack with its real servers: from an empty folder, through kills, to a second
// start that finds everything again.

import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SchemaRegistry, SchemaType } from "@kafkajs/confluent-schema-registry";
import { createRemoteJWKSet, jwtVerify } from "jose";
import { Kafka, logLevel } from "kafkajs";
import pg from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { demoToken } from "../../infra/embedded/servers/login.ts";
import type { Stack } from "../../infra/embedded/supervisor.ts";
import { appLogins } from "../../infra/postgres/logins.ts";
import { startOf } from "../../infra/runtime/lock.ts";
import { workshop } from "./home-for-test.ts";

const here = workshop();
let stack: Stack;
let firstEnv: Stack["env"];
afterAll(() => here.clear());

const kafka = () =>
  new Kafka({
    brokers: [stack.env.KAFKA_BROKERS!],
    logLevel: logLevel.NOTHING,
    retry: { retries: 10, initialRetryTime: 50 },
  });

async function inPostgres(sql: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: stack.env.POSTGRES_ADMIN_URL });
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end();
  }
}

async function inClickhouse(sql: string): Promise<string> {
  const { origin, username, password } = new URL(stack.env.CLICKHOUSE_URL!);
  const answer = await fetch(`${origin}/?database=tributary`, {
    method: "POST",
    body: sql,
    headers: { "x-clickhouse-user": username, "x-clickhouse-key": password },
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(text);
  return text.trim();
}

async function highWatermark(topic: string): Promise<string | undefined> {
  const admin = kafka().admin();
  await admin.connect();
  try {
    return (await admin.fetchTopicOffsets(topic))[0]?.high;
  } finally {
    await admin.disconnect();
  }
}

async function produce(topic: string, value: string): Promise<void> {
  const producer = kafka().producer();
  await producer.connect();
  await producer.send({ topic, acks: -1, messages: [{ key: "k", value }] });
  await producer.disconnect();
}

const schema = (...fields: object[]) =>
  JSON.stringify({ type: "record", name: "Sale", namespace: "t", fields: [{ name: "id", type: "string" }, ...fields] });
const register = (text: string) =>
  new SchemaRegistry({ host: stack.env.SCHEMA_REGISTRY_URL! }, {}).register(
    { type: SchemaType.AVRO, schema: text },
    { subject: "sales-value", compatibility: "BACKWARD_TRANSITIVE" as never },
  );

describe("an empty folder", () => {
  test("becomes eight servers that answer, within a minute", async () => {
    const began = performance.now();
    stack = await here.start();
    expect(performance.now() - began).toBeLessThan(60_000);
    firstEnv = stack.env;
    expect(Object.keys(stack.run.services).sort()).toEqual([
      "clickhouse",
      "identity",
      "kafka",
      "mail",
      "payments",
      "postgres",
      "redis",
      "registry",
    ]);

    const admin = kafka().admin();
    await admin.connect();
    await admin.createTopics({ topics: [{ topic: "sales", numPartitions: 1 }] });
    expect((await admin.describeCluster()).brokers).toHaveLength(1);
    await admin.disconnect();
    await produce("sales", "one");
    await inPostgres("CREATE TABLE sales (id int)");
    await inPostgres("INSERT INTO sales VALUES (1)");
    expect(await inPostgres("SHOW data_checksums")).toEqual([{ data_checksums: "on" }]);
    expect(await inPostgres("SHOW synchronous_commit")).toEqual([{ synchronous_commit: "on" }]);
    await inClickhouse("CREATE TABLE sales (id UInt64) ENGINE = MergeTree ORDER BY id");
    await inClickhouse("INSERT INTO sales VALUES (1)");
  });

  test("no other account of the machine reads the files of a store", () => {
    for (const store of ["kafka", "clickhouse", "postgres", "redis"])
      expect([store, statSync(join(stack.home, store)).mode & 0o077]).toEqual([store, 0]);
  });

  test("the broker takes no topic that was not created", async () => {
    const producer = new Kafka({
      brokers: [stack.env.KAFKA_BROKERS!],
      logLevel: logLevel.NOTHING,
      retry: { retries: 0 },
    }).producer();
    await producer.connect();
    await expect(producer.send({ topic: "typo", messages: [{ value: "x" }] })).rejects.toThrow(
      /does not host this topic-partition/,
    );
    await producer.disconnect();
  });
});

describe("the registry", () => {
  test("gives equal schemas one id and refuses one that cannot read the oldest record", async () => {
    const { id } = await register(schema());
    expect(await register(schema())).toEqual({ id });
    await register(schema({ name: "note", type: "string", default: "" }));
    const url = stack.env.SCHEMA_REGISTRY_URL!;
    const refused = await fetch(`${url}/subjects/sales-value/versions`, {
      method: "POST",
      body: JSON.stringify({ schema: schema({ name: "amount", type: "long" }) }),
    });
    expect(refused.status).toBe(409);
    expect(await refused.json()).toMatchObject({
      error_code: 409,
      message: expect.stringContaining("incompatible with an earlier schema"),
    });
    expect(await (await fetch(`${url}/subjects/sales-value/versions`)).json()).toEqual([1, 2]);
    expect(await (await fetch(`${url}/subjects/sales-value/versions/latest`)).json()).toMatchObject({
      subject: "sales-value",
      version: 2,
    });
    expect(await (await fetch(`${url}/schemas/ids/${id}`)).json()).toEqual({ schema: schema() });
    expect(await (await fetch(`${url}/config/sales-value`)).json()).toEqual({
      compatibilityLevel: "BACKWARD_TRANSITIVE",
    });
  });

  test("answers what is not there, or is no schema, with Confluent's codes", async () => {
    const codeOf = async (path: string, body?: object) => {
      const answer = await fetch(
        `${stack.env.SCHEMA_REGISTRY_URL}${path}`,
        body && { method: "POST", body: JSON.stringify(body) },
      );
      return ((await answer.json()) as { error_code: number }).error_code;
    };
    expect(await codeOf("/subjects/none/versions")).toBe(40_401);
    expect(await codeOf("/subjects/sales-value/versions/9")).toBe(40_402);
    expect(await codeOf("/schemas/ids/999")).toBe(40_403);
    expect(await codeOf("/config/none")).toBe(40_408);
    expect(await codeOf("/subjects/x/versions", { schema: '{"type":"nonsense"}' })).toBe(42_201);
    expect(await codeOf("/subjects/sales-value", { schema: '"string"' })).toBe(40_403);
    expect(await codeOf("/nowhere")).toBe(404);
  });
});

describe("the identity provider", () => {
  test("gives the holder of the secret, and no one else, a token of 15 minutes for any demo person", async () => {
    const { login } = JSON.parse(readFileSync(join(here.home, "secrets.json"), "utf8"));
    const issuer = stack.env.OIDC_ISSUER!;
    const token = await demoToken(issuer, login, "partner@demo.tributary.test");
    const { payload, protectedHeader } = await jwtVerify(token, createRemoteJWKSet(new URL(`${issuer}/jwks`)), {
      issuer,
      audience: stack.env.OIDC_AUDIENCE!,
    });
    expect(payload).toMatchObject({
      sub: "partner@demo.tributary.test",
      email: "partner@demo.tributary.test",
      email_verified: true,
    });
    expect(payload.exp! - payload.iat!).toBe(900);
    expect(protectedHeader).toMatchObject({ alg: "RS256", typ: "at+jwt" });
    await expect(demoToken(issuer, "guessed", "admin@demo.tributary.test")).rejects.toThrow("gave no token");
  });
});

test("each store that is killed comes back by itself with its data", async () => {
  const names = ["kafka", "postgres", "clickhouse", "registry"] as const;
  const before = Object.fromEntries(names.map((name) => [name, stack.pid(name)]));
  for (const name of names) expect(stack.kill(name, "SIGKILL")).toBe(true);
  await Promise.all(names.map((name) => stack.ready(name, 60_000)));
  for (const name of names) {
    expect(startOf(before[name]!)).toBeUndefined();
    expect(stack.pid(name)).not.toBe(before[name]);
    expect(here.lines).toContainEqual(
      expect.stringMatching(new RegExp(`^${name} (was ended by SIGKILL|exited with code)`)),
    );
  }
  expect(await highWatermark("sales")).toBe("1");
  expect(await inPostgres("SELECT id FROM sales")).toEqual([{ id: 1 }]);
  expect(await inClickhouse("SELECT count() FROM sales")).toBe("1");
  expect(await (await fetch(`${stack.env.SCHEMA_REGISTRY_URL}/subjects`)).json()).toEqual(["sales-value"]);
}, 90_000);

test("after a stop nothing runs, and a second start finds the same addresses, data and keys", async () => {
  const pids = Object.values(stack.run.services).map(({ pid }) => pid!);
  await stack.stop();
  expect(pids.map(startOf)).toEqual(pids.map(() => undefined));
  expect(existsSync(join(here.home, "run.json"))).toBe(false);

  stack = await here.start();
  expect(stack.env).toEqual(firstEnv);
  expect(await highWatermark("sales")).toBe("1");
  expect(await inPostgres("SELECT id FROM sales")).toEqual([{ id: 1 }]);
  expect(await inClickhouse("SELECT count() FROM sales")).toBe("1");
  await produce("sales", "two");
  await expect(register(schema({ name: "amount", type: "long" }))).rejects.toThrow(/incompatible/);
});

test("a folder that a release of before has run in between, which drops later passwords, starts again", async () => {
  await stack.stop();
  const file = join(here.home, "secrets.json");
  const { tributary, postgresOwner, postgresApp, login } = JSON.parse(readFileSync(file, "utf8"));
  writeFileSync(file, JSON.stringify({ tributary, postgresOwner, postgresApp, login }));

  stack = await here.start();
  const { postgresLogins } = JSON.parse(readFileSync(file, "utf8"));
  for (const [name, { role }] of Object.entries(appLogins)) {
    const address = new URL(stack.env.POSTGRES_ADMIN_URL!);
    address.username = role;
    address.password = postgresLogins[name];
    const client = new pg.Client({ connectionString: address.href });
    await client.connect();
    expect((await client.query("SELECT current_user AS role")).rows).toEqual([{ role }]);
    await client.end();
  }
  expect(await inClickhouse("SELECT count() FROM sales")).toBe("1");
});
