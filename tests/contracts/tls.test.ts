// The whole product over TLS: every store by its URL, every app by certificate files, and a wrong
// certificate is refused.
import { writeFileSync } from "node:fs";
import { request } from "node:https";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { createServer as createFront, type Server, type TLSSocket } from "node:tls";
import { Redis } from "ioredis";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRegistry } from "../../infra/avro/registry.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { stackConfig } from "../../infra/embedded/config.ts";
import type { Stack } from "../../infra/embedded/supervisor.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { steps } from "../../modules/running/installation/steps.ts";
import { topics } from "../../topics.ts";
import { ownConfig, workshop } from "../stack/home-for-test.ts";
import { newAuthority } from "../support/certificates.ts";
import { startTlsKafka, type TlsKafka } from "../support/tls-kafka.ts";

const here = workshop();
const authority = newAuthority();
// The certificate has one name, so the address 127.0.0.1 does not match it.
const own = authority.issue("localhost");
const USER = { name: "tributary", password: "s3cret" };
const file = (name: string) => join(here.home, name);

let kafka: TlsKafka;
let stack: Stack;
let clickhouse: Front;
let redis: Front;
let registry: Front;
const closers: (() => Promise<unknown> | unknown)[] = [];

interface Front {
  readonly port: number;
  /** TLS versions of the connections so far. */
  readonly seen: string[];
}
/** A TLS socket in front of a running server. */
const frontOf = async (target: string): Promise<Front> => {
  const { hostname, port } = new URL(target);
  const seen: string[] = [];
  const open = new Set<Socket>();
  const front: Server = createFront({ cert: own.cert, key: own.key, minVersion: "TLSv1.3" }, (socket: TLSSocket) => {
    seen.push(socket.getProtocol() ?? "none");
    const behind = connect(Number(port), hostname);
    for (const one of [socket, behind]) open.add(one.on("error", () => undefined).on("close", () => open.delete(one)));
    socket.pipe(behind).pipe(socket);
  });
  await new Promise<void>((resolve) => front.listen(0, "127.0.0.1", resolve));
  closers.push(() => {
    for (const socket of open) socket.destroy();
    return new Promise((resolve) => front.close(resolve));
  });
  return { port: (front.address() as { port: number }).port, seen };
};

/**
 * Puts certificate files beside the server's data, readable only by its user, and switches TLS on
 * without a restart.
 */
const encryptPostgres = async (adminUrl: string): Promise<void> => {
  const owner = new pg.Client({ connectionString: adminUrl });
  await owner.connect();
  for (const [name, text] of [["tls.crt", own.cert] as const, ["tls.key", own.key] as const])
    await owner.query(
      `copy (select regexp_split_to_table(${owner.escapeLiteral(text.trim())}, '\n')) to program ` +
        `'umask 077; cat > ${name}'`,
    );
  for (const setting of [
    "ssl_cert_file = 'tls.crt'",
    "ssl_key_file = 'tls.key'",
    "ssl_min_protocol_version = 'TLSv1.3'",
    "ssl = on",
  ])
    await owner.query(`alter system set ${setting}`);
  await owner.query("select pg_reload_conf()");
  await owner.end();
};

const urlWith = (url: string, change: (target: URL) => void): string => {
  const target = new URL(url);
  change(target);
  return target.href;
};

/** The same user and password, over TLS and the front's port. */
const secured = (url: string, port: number): string =>
  urlWith(url.replace(/^(\w+):/, "$1s:"), (target) => {
    target.hostname = "localhost";
    target.port = String(port);
  });

let env: Record<string, string>;
beforeAll(async () => {
  writeFileSync(file("authority.pem"), authority.cert);
  writeFileSync(file("own.crt"), own.cert);
  writeFileSync(file("own.key"), own.key);
  kafka = await startTlsKafka(here.home, authority, own, USER);
  const config = stackConfig({
    ...ownConfig().inherited,
    KAFKA_BROKERS: `127.0.0.1:${kafka.plain}`,
  } as NodeJS.ProcessEnv);
  stack = await here.start({ config, services: ["kafka", "postgres", "clickhouse", "redis", "registry"], steps });
  await encryptPostgres(stack.env.POSTGRES_ADMIN_URL!);
  clickhouse = await frontOf(stack.env.CLICKHOUSE_URL!);
  redis = await frontOf(stack.env.REDIS_URL!);
  registry = await frontOf(stack.env.SCHEMA_REGISTRY_URL!);
  env = {
    // Node's own variable names an authority that the machine does not know, for all stores at
    // once.
    NODE_EXTRA_CA_CERTS: file("authority.pem"),
    TLS_CERT_FILE: file("own.crt"),
    TLS_KEY_FILE: file("own.key"),
    KAFKA_BROKERS: `kafkas://${USER.name}:${USER.password}@localhost:${kafka.password}?sasl=scram-sha-512`,
    SCHEMA_REGISTRY_URL: `https://localhost:${registry.port}`,
    REDIS_URL: secured(stack.env.REDIS_URL!, redis.port),
    CLICKHOUSE_URL: secured(stack.env.CLICKHOUSE_URL!, clickhouse.port),
    POSTGRES_URL: urlWith(stack.env.POSTGRES_URL!, (url) => {
      url.hostname = "localhost";
      url.searchParams.set("sslmode", "verify-full");
    }),
  };
}, 120_000);
afterAll(async () => {
  await stack?.stop();
  for (const close of closers.reverse()) await close();
  await kafka?.stop();
  await here.clear();
});

const post = (
  url: string,
  token: string,
  body: string,
): Promise<{ status: number; text: string; protocol: string | null }> =>
  new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const sent = request(
      url,
      { method: "POST", ca: authority.cert, servername: "localhost", headers, agent: false },
      async (answer) => {
        const protocol = (answer.socket as TLSSocket).getProtocol();
        let text = "";
        for await (const part of answer) text += part;
        resolve({ status: answer.statusCode!, text, protocol });
      },
    );
    sent.once("error", reject).end(body);
  });

describe("with TLS everywhere", () => {
  test("a purchase becomes a sale and a stored event", async () => {
    for (const app of apps) await stack.start({ ...app, env });
    const { url, ops_url } = stack.run.apps.ingest!;
    expect([url, ops_url].map((one) => new URL(one).protocol)).toEqual(["https:", "https:"]);
    const demo = stack.run.demo as { clients: { id: number; ingest_token: string }[] };
    const [client] = demo.clients;
    const event = {
      t: "purchase",
      ts: Date.now(),
      cid: client!.id,
      did: "device-1",
      props: { order_id: "TLS-1", revenue: "499.00", currency: "MXN", product_id: "lamp", quantity: 1 },
    };
    const answer = await post(`${url}/ingest/batch`, client!.ingest_token, JSON.stringify({ events: [event] }));
    expect(answer).toMatchObject({ status: 200, protocol: "TLSv1.3" });
    expect(JSON.parse(answer.text)).toMatchObject({ accepted: 1 });

    const owner = openPool(stack.env.POSTGRES_ADMIN_URL!);
    const analytics = openClickhouse(stack.env.CLICKHOUSE_URL!);
    closers.push(
      () => owner.end(),
      () => analytics.close(),
    );
    await until("the sale is stored", 60_000, async () => {
      const { rows } = await owner.query("select order_id from product_sales where order_id = 'TLS-1'");
      expect(rows).toHaveLength(1);
      const stored = await analytics.query({
        query: "select count() as n from events where order_id = 'TLS-1'",
        format: "JSONEachRow",
      });
      expect(await stored.json()).toEqual([{ n: "1" }]);
    });
    // No connection bypassed TLS.
    const { rows: sessions } = await owner.query(
      "select distinct s.ssl, s.version from pg_stat_ssl s join pg_stat_activity a using (pid) where " +
        "a.usename = 'tributary_app'",
    );
    expect(sessions).toEqual([{ ssl: true, version: "TLSv1.3" }]);
    for (const front of [clickhouse, redis, registry]) expect(new Set(front.seen)).toEqual(new Set(["TLSv1.3"]));
  }, 180_000);

  test("Kafka takes a password in either form, and a client's own certificate", async () => {
    const ca = `ca=${encodeURIComponent(file("authority.pem"))}`;
    const topicsOf = async (brokers: string): Promise<readonly string[]> => {
      const admin = await openKafka({ brokers, clientId: "tls-test" }).admin();
      try {
        return await admin.topics();
      } finally {
        await admin.close();
      }
    };
    const mine = authority.issue("an app");
    writeFileSync(file("mine.crt"), mine.cert);
    writeFileSync(file("mine.key"), mine.key);
    for (const mechanism of ["plain", "scram-sha-512"])
      expect(
        await topicsOf(`kafkas://${USER.name}:${USER.password}@localhost:${kafka.password}?sasl=${mechanism}&${ca}`),
      ).toContain("events.raw");
    const files = `${ca}&cert=${file("mine.crt")}&key=${file("mine.key")}`;
    expect(await topicsOf(`kafkas://localhost:${kafka.mutual}?${files}`)).toContain("events.raw");
    await expect(topicsOf(`kafkas://${USER.name}:wrong@localhost:${kafka.password}?${ca}`)).rejects.toThrow(
      /authentication/i,
    );
    await expect(topicsOf(`kafkas://localhost:${kafka.mutual}?${ca}`)).rejects.toThrow();
  }, 60_000);
});

describe("a certificate of an unknown authority is refused by", () => {
  const untrusted = /self-signed|unable to verify|unable to get local issuer/i;

  test("Kafka", async () => {
    await expect(
      openKafka({ brokers: `kafkas://localhost:${kafka.password}`, clientId: "tls-test" }).admin(),
    ).rejects.toThrow(untrusted);
  }, 60_000);

  test("Postgres", async () => {
    const pool = openPool(env.POSTGRES_URL!);
    await expect(pool.query("select 1")).rejects.toThrow(untrusted);
    await pool.end();
  });

  test("ClickHouse", async () => {
    const client = openClickhouse(env.CLICKHOUSE_URL!);
    await expect(client.query({ query: "select 1" })).rejects.toThrow(untrusted);
    await client.close();
  });

  test("Redis", async () => {
    const client = new Redis(env.REDIS_URL!, { lazyConnect: true, maxRetriesPerRequest: 1 });
    const failed = new Promise<Error>((resolve) => client.on("error", resolve));
    await expect(client.ping()).rejects.toThrow();
    expect((await failed).message).toMatch(untrusted);
    client.disconnect();
  });

  test("the schema registry", async () => {
    const asked = openRegistry({ url: env.SCHEMA_REGISTRY_URL!, deadlineMs: 300 }).idOf(topics.eventsRaw);
    await expect(asked).rejects.toThrow();
  });
});

describe("a certificate of another name is refused by", () => {
  const misnamed = /altnames|does not match/i;

  test("Kafka", async () => {
    const brokers = `kafkas://${USER.name}:${USER.password}@127.0.0.1:${kafka.password}?ca=${file("authority.pem")}`;
    await expect(openKafka({ brokers, clientId: "tls-test" }).admin()).rejects.toThrow(misnamed);
  }, 60_000);

  test("Postgres", async () => {
    const url = urlWith(env.POSTGRES_URL!, (target) => {
      target.hostname = "127.0.0.1";
      target.searchParams.set("sslrootcert", file("authority.pem"));
    });
    const pool = openPool(url);
    await expect(pool.query("select 1")).rejects.toThrow(misnamed);
    await pool.end();
  });
});
