// The configuration of the ingest host tells all of its problems at once, and no secret.
import { expect, test } from "vitest";
import { readConfig } from "../../apps/ingest/config.ts";

const good = {
  KAFKA_BROKERS: "127.0.0.1:9092",
  SCHEMA_REGISTRY_URL: "http://127.0.0.1:8081",
  REDIS_URL: "redis://127.0.0.1:6379",
  POSTGRES_URL: "postgres://app:secret@127.0.0.1:5432/tributary",
  CLICKHOUSE_URL: "http://127.0.0.1:8123/tributary",
  OBJECT_STORE_URL: "file:///tmp/objects",
  TRIBUTARY_SECRET: "0123456789abcdef0123456789abcdef",
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
    OPS_PORT: 9080,
    HOST: "127.0.0.1",
    INSTANCE_NAME: "tributary",
    TRUSTED_PROXIES: [],
    LOG_LEVEL: "info",
  });
  expect(readConfig({ ...good, PORT: "", TRUSTED_PROXIES: "10.0.0.0/8, loopback" })).toMatchObject({
    PORT: 8080,
    TRUSTED_PROXIES: ["10.0.0.0/8", "loopback"],
  });
});

test("all problems are told at once, by the names of the variables", () => {
  const told = problems({
    PORT: "http",
    KAFKA_BROKERS: undefined,
    TRUSTED_PROXIES: "everyone",
    TLS_CERT_FILE: "a.pem",
    LOG_LEVEL: "loud",
    INSTANCE_NAME: "a/b",
  });
  for (const name of ["PORT", "KAFKA_BROKERS", "TRUSTED_PROXIES", "LOG_LEVEL", "INSTANCE_NAME"])
    expect(told).toContain(`  ${name}: `);
  expect(problems({ TLS_CERT_FILE: "a.pem" })).toContain("TLS_CERT_FILE and TLS_KEY_FILE: must be given together");
});

test("no value is shown, for some are secrets", () => {
  expect(problems({ TRIBUTARY_SECRET: "hunter2", POSTGRES_URL: "hunter2" })).not.toContain("hunter2");
});
