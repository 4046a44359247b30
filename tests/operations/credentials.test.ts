// Credentials come from files too: a setting from <NAME>_FILE, the password of an address from
// <STORE>_PASSWORD_FILE, with any character. What cannot be used is said, and no value is shown.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@clickhouse/client";
import { Redis } from "ioredis";
import { Client } from "pg";
import { afterAll, describe, expect, test } from "vitest";
import { readConfig as ingestConfig } from "../../apps/ingest/config.ts";
import { stackConfig } from "../../infra/embedded/config.ts";
import { withFiles } from "../../infra/runtime/credentials/files.ts";
import { redactorOf, secretsIn } from "../../infra/runtime/keyring.ts";
import { appPasswordOf } from "../../modules/running/installation/steps.ts";
import { PASSWORD, SECRET } from "../support/compose.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-credentials-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = (text: string): string => {
  const path = join(folder, `${Math.random()}`);
  writeFileSync(path, text);
  return path;
};

const good = {
  KAFKA_BROKERS: "127.0.0.1:9092",
  SCHEMA_REGISTRY_URL: "http://127.0.0.1:8081",
  REDIS_URL: "redis://app@127.0.0.1:6379",
  POSTGRES_URL: "postgres://tributary_app@127.0.0.1:5432/tributary",
  CLICKHOUSE_URL: "http://app@127.0.0.1:8123/tributary",
  OBJECT_STORE_URL: "file:///tmp/objects",
  TRIBUTARY_SECRET: SECRET,
};
const problems = (env: Readonly<Record<string, string>>): string => {
  try {
    ingestConfig({ ...good, ...env });
    return "";
  } catch (error) {
    return (error as Error).message;
  }
};

describe("a setting from a file", () => {
  test("is as if it were given, without the line breaks at its end", () => {
    const { TRIBUTARY_SECRET: _, ...others } = good;
    const config = ingestConfig({ ...others, TRIBUTARY_SECRET_FILE: file(`${SECRET}\r\n\n`) });
    expect(config.TRIBUTARY_SECRET.newest).toBe(SECRET);
  });

  test("keeps the spaces at its ends", () =>
    expect(withFiles({ KAFKA_BROKERS_FILE: file(" a:1 \n") }).env.KAFKA_BROKERS).toBe(" a:1 "));

  test("is not given when the file is empty, and the message of a required one names the file", () => {
    expect(problems({ TRIBUTARY_SECRET_FILE: file("") })).toBe("");
    expect(problems({ TRIBUTARY_SECRET: "", TRIBUTARY_SECRET_FILE: file("\n") })).toMatch(
      /^ {2}TRIBUTARY_SECRET: .* \(TRIBUTARY_SECRET_FILE holds nothing\)$/m,
    );
  });

  test("that cannot be read, or is given twice, is a problem that shows no value", () => {
    const listed = problems({
      TRIBUTARY_SECRET_FILE: file("another secret of this installation"),
      KAFKA_BROKERS: "",
      KAFKA_BROKERS_FILE: "/nowhere/brokers",
      CLICKHOUSE_PASSWORD_FILE: folder,
    });
    expect(listed).toContain("  TRIBUTARY_SECRET: is given twice, by itself and by TRIBUTARY_SECRET_FILE\n");
    expect(listed).toContain("  KAFKA_BROKERS_FILE: /nowhere/brokers cannot be read: ENOENT\n");
    expect(listed).toContain(`  CLICKHOUSE_PASSWORD_FILE: ${folder} cannot be read: EISDIR`);
    expect(listed).not.toContain("another secret");
  });
});

describe("the password of an address from a file", () => {
  const config = ingestConfig({
    ...good,
    ...{ REDIS_PASSWORD_FILE: file(PASSWORD), POSTGRES_PASSWORD_FILE: file(`${PASSWORD}\n`) },
    CLICKHOUSE_PASSWORD_FILE: file(PASSWORD),
  });

  test("may have any character: every client sends it as it was written", async () => {
    expect(new Client({ connectionString: config.POSTGRES_URL }).password).toBe(PASSWORD);
    expect(appPasswordOf(config.POSTGRES_URL)).toBe(PASSWORD);
    const redis = new Redis(config.REDIS_URL, { lazyConnect: true });
    expect([redis.options.username, redis.options.password]).toEqual(["app", PASSWORD]);
    const clickhouse = createClient({ url: config.CLICKHOUSE_URL });
    expect(JSON.stringify(clickhouse)).toContain(JSON.stringify(PASSWORD).slice(1, -1));
    await clickhouse.close();
  });

  test("is hidden in what is logged", () => {
    const hide = redactorOf(secretsIn(config as unknown as Readonly<Record<string, unknown>>));
    expect(hide(`${config.POSTGRES_URL} and ${PASSWORD}`)).not.toMatch(/w'o|rd/);
  });

  test("needs an address with a user and without a password", () => {
    const url = "postgres://tributary_app:other@127.0.0.1:5432/tributary";
    const listed = problems({
      POSTGRES_URL: url,
      POSTGRES_PASSWORD_FILE: file("x"),
      CLICKHOUSE_URL: "http://127.0.0.1:8123/tributary",
      CLICKHOUSE_PASSWORD_FILE: file("x"),
    });
    expect(listed).toContain("  POSTGRES_PASSWORD_FILE: POSTGRES_URL has a password already");
    expect(listed).toContain("  CLICKHOUSE_PASSWORD_FILE: CLICKHOUSE_URL names no user");
  });

  test("is read by an app only for what it reads", () =>
    expect(problems({ SMTP_URL: "smtp://user@mail", SMTP_PASSWORD_FILE: "/nowhere" })).toBe(""));
});

test("npm start takes them too, and its children get plain settings", () => {
  const config = stackConfig({ REDIS_URL: good.REDIS_URL, REDIS_PASSWORD_FILE: file("a b") });
  expect([config.REDIS_URL, config.inherited.REDIS_URL]).toEqual(Array(2).fill("redis://app:a%20b@127.0.0.1:6379"));
  expect(() => stackConfig({ REDIS_URL_FILE: "/nowhere" })).toThrow("REDIS_URL_FILE: /nowhere cannot be read: ENOENT");
});

test("the list of variables says so", () =>
  expect(readFileSync(".env.example", "utf8")).toContain("TRIBUTARY_SECRET_FILE"));
