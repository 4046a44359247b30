// The configuration of the ingest host reports all its problems at once, and shows no secret.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readConfig as readApiConfig } from "../../apps/api/config.ts";
import { readConfig } from "../../apps/ingest/config.ts";
import { readConfig as readKeeperConfig } from "../../apps/keeper/config.ts";
import { readEnvironment, type Variable } from "../../infra/runtime/environment.ts";

const good = {
  KAFKA_BROKERS: "127.0.0.1:9092",
  SCHEMA_REGISTRY_URL: "http://127.0.0.1:8081",
  REDIS_URL: "redis://127.0.0.1:6379",
  POSTGRES_URL: "postgres://app:secret@127.0.0.1:5432/tributary",
  CLICKHOUSE_URL: "http://127.0.0.1:8123/tributary",
  OBJECT_STORE_URL: "file:///tmp/objects",
  TRIBUTARY_SECRET: "pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA",
};
const problems = (env: Record<string, string | undefined>): string => {
  try {
    readConfig({ ...good, ...env });
    return "";
  } catch (error) {
    return (error as Error).message;
  }
};

test("addresses and the secret are enough, all else has a default", () => {
  expect(readConfig(good)).toMatchObject({
    PORT: 8080,
    OPS_PORT: { host: "127.0.0.1", port: 9080 },
    HOST: "127.0.0.1",
    INSTANCE_NAME: "tributary",
    TRUSTED_PROXIES: [],
    LOG_LEVEL: "info",
    MERCADOPAGO_URL: "https://api.mercadopago.com",
  });
  expect(readConfig({ ...good, PORT: "", TRUSTED_PROXIES: "10.0.0.0/8, fd00::/8,fc00::/7, loopback" })).toMatchObject({
    PORT: 8080,
    TRUSTED_PROXIES: ["10.0.0.0/8", "fd00::/8", "fc00::/7", "loopback"],
  });
});

test("all problems are reported at once, by the names of the variables", () => {
  const listed = problems({
    PORT: "http",
    KAFKA_BROKERS: undefined,
    TRUSTED_PROXIES: "everyone",
    TLS_CERT_FILE: "a.pem",
    LOG_LEVEL: "loud",
    INSTANCE_NAME: "a/b",
  });
  for (const name of ["PORT", "KAFKA_BROKERS", "TRUSTED_PROXIES", "LOG_LEVEL", "INSTANCE_NAME"])
    expect(listed).toContain(`  ${name}: `);
  expect(problems({ TLS_CERT_FILE: "a.pem" })).toContain("TLS_CERT_FILE and TLS_KEY_FILE: must be given together");
});

test.each(["0.0.0.0/0", "::/0", "10.0.0.0/8,128.0.0.0/1", "2000::/3"])(
  "proxies that are half of the internet are refused, since anybody could name the sender: %s",
  (ranges) => {
    expect(problems({ TRUSTED_PROXIES: ranges })).toContain(
      "TRUSTED_PROXIES: must be addresses or CIDR ranges of your",
    );
  },
);

test.each([
  ["s".repeat(64), "few characters"],
  ["abcabcabcabcabcabcabcabcabcabcabcabc", "few characters, repeated"],
  ["change-me-change-me-change-me-change-me", "a word of examples"],
  ["0123456789abcdef0123456789abcdef", "the digits in their order"],
  ["tributary-production-secret-password", "words of the product"],
])("a secret that can be guessed is refused with its cure: %s (%s)", (secret) => {
  const told = problems({ TRIBUTARY_SECRET: secret });
  expect(told).toContain("TRIBUTARY_SECRET: can be guessed: make one with `openssl rand -base64 32`");
  expect(told).not.toContain(secret);
});

test("a random secret is taken, in hexadecimal as in base64", () => {
  for (let n = 0; n < 1_000; n++)
    for (const encoding of ["hex", "base64", "base64url"] as const)
      expect(problems({ TRIBUTARY_SECRET: randomBytes(32).toString(encoding) })).toBe("");
});

test("an identity provider off this machine must be https", () => {
  const api = (OIDC_ISSUER: string) => () => readApiConfig({ ...good, OIDC_ISSUER });
  for (const refused of [
    "http://id.example",
    "http://10.0.0.7:8080",
    "http://127.0.0.1.nip.example",
    "ftp://id.example",
  ])
    expect(api(refused), refused).toThrow("OIDC_ISSUER: must be https");
  expect(api("id.example")).toThrow("OIDC_ISSUER: ");
  for (const taken of ["https://id.example", "http://127.0.0.1:4000", "http://localhost:4000", "http://[::1]:4000"])
    expect(api(taken)(), taken).toMatchObject({ OIDC_ISSUER: taken });
});

test("another host may stand in for Mercado Pago, in plain text too, by an address that takes a path", () => {
  for (const taken of ["http://127.0.0.1:4000", "https://gateway.example/mercadopago/"])
    expect(readConfig({ ...good, MERCADOPAGO_URL: taken })).toMatchObject({ MERCADOPAGO_URL: taken });
  for (const refused of [
    "api.mercadopago.com",
    "ftp://a.example",
    "https://a:b@c.example",
    "http://a.example/?b",
    "http:",
  ])
    expect(problems({ MERCADOPAGO_URL: refused }), refused).toContain("MERCADOPAGO_URL: ");
});

test("a public address is an origin, and a wrong one is refused by its name", () => {
  const api = (PIXEL_URL: string) => () => readApiConfig({ ...good, PIXEL_URL });
  for (const refused of [
    ...["https://px.example/base", "https://px.example?a=1", "https://px.example/#a", "https://u:p@px.example"],
    ...["px.example", "ftp://px.example", "/r.js"],
  ])
    expect(api(refused), refused).toThrow("PIXEL_URL: must be an origin without a path or query");
  expect(api("https://px.example/")()).toMatchObject({ PIXEL_URL: "https://px.example" });
  expect(api("http://127.0.0.1:8085")()).toMatchObject({ PIXEL_URL: "http://127.0.0.1:8085" });
  expect(api("")().PIXEL_URL).toBeUndefined();
});

test("what mails link to is an address: the portal an origin, the pages any place below one", () => {
  const api = (given: object) => () => readApiConfig({ ...good, ...given });
  for (const refused of ["https://portal.example/app", "portal.example", "ftp://portal.example"])
    expect(api({ PORTAL_URL: refused }), refused).toThrow("PORTAL_URL: must be an origin without a path or query");
  expect(api({ PORTAL_URL: "http://portal.example" })).toThrow("PORTAL_URL: must be https");
  expect(api({ PORTAL_URL: "https://portal.example/" })()).toMatchObject({ PORTAL_URL: "https://portal.example" });
  for (const refused of ["docs", "/srv/docs", "file:///srv", "https://u:p@wiki.example", "https://wiki.example/?page="])
    expect(api({ DOCS_URL: refused }), refused).toThrow("DOCS_URL: ");
  const docs = api({ DOCS_URL: "https://wiki.example/tributary/" });
  expect(docs()).toMatchObject({ DOCS_URL: "https://wiki.example/tributary" });
  const ofKeeper = { ...good, DOCS_URL: "wiki.example" };
  expect(() => readKeeperConfig(ofKeeper)).toThrow("DOCS_URL: ");
});

test("each default of .env.example is one that its variable takes, as text", () => {
  const lines = readFileSync(".env.example", "utf8").matchAll(/^#([A-Z_]+)=(.+)$/gm);
  const shown = Object.fromEntries([...lines].map(([, name, value]) => [name, value]));
  expect(shown).toMatchObject({ PORT: "8080", OPS_PORT: "9080", LOG_LEVEL: "info" });
  expect(Object.values(shown).join(" ")).not.toContain("[object");
  expect(() => readEnvironment("the example", Object.keys(shown) as Variable[], shown)).not.toThrow();
});

test("no value is shown, for some are secrets", () => {
  expect(problems({ TRIBUTARY_SECRET: "hunter2", POSTGRES_URL: "hunter2" })).not.toContain("hunter2");
});
