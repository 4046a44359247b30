// One contract for every object storage: a folder, S3 (our own server, which checks signatures),
// and the twin in memory of other tests.
import { mkdtempSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ObjectMissing, type Objects } from "../../infra/objects/objects.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { s3AddressOf } from "../../infra/objects/s3.ts";
import { classify } from "../../infra/runtime/errors.ts";
import { inMemoryObjects } from "../support/in-memory-objects.ts";
import { type S3Server, startS3 } from "../support/s3-server.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-objects-"));
let s3: S3Server;
beforeAll(async () => {
  s3 = await startS3();
});
afterAll(async () => {
  await s3.close();
  rmSync(folder, { recursive: true, force: true });
});

const listed = async (objects: Objects, prefix: string, after?: string): Promise<readonly string[]> => {
  const keys: string[] = [];
  for await (const { key, bytes } of objects.list(prefix, after)) keys.push(`${key} ${bytes}`);
  return keys;
};
const text = async (objects: Objects, key: string): Promise<string> => String(await objects.get(key));

const stores: Readonly<Record<string, () => Objects>> = {
  "a folder": () => openObjects(pathToFileURL(join(folder, "store")).href),
  S3: () => openObjects(s3.url()),
  "S3 under a prefix": () => openObjects(s3.url({ query: "&prefix=shop-a" })),
  memory: () => inMemoryObjects(),
};

describe.each(Object.entries(stores))("object storage in %s", (_, open) => {
  let objects: Objects;
  beforeAll(() => {
    objects = open();
  });
  afterAll(() => objects.close());

  test("gives back what was put, and what was put last", async () => {
    await objects.put("one/a.bin", Buffer.from([0, 1, 255]));
    expect([...(await objects.get("one/a.bin"))]).toEqual([0, 1, 255]);
    await objects.put("one/a.bin", Buffer.from("again"));
    expect(await text(objects, "one/a.bin")).toBe("again");
    await objects.put("one/empty", Buffer.alloc(0));
    expect((await objects.get("one/empty")).length).toBe(0);
    const large = Buffer.alloc(9 * 1024 * 1024, 7);
    await objects.put("one/large", large);
    expect((await objects.get("one/large")).equals(large)).toBe(true);
  });

  test("says when an object was put last", async () => {
    const before = Date.now() - 2_000;
    await objects.put("age/a", Buffer.from("x"));
    for await (const { storedAt } of objects.list("age/")) {
      expect(storedAt).toBeGreaterThan(before);
      expect(storedAt).toBeLessThan(Date.now() + 2_000);
    }
  });

  test("says that there is nothing, and deletes nothing gladly", async () => {
    await expect(objects.get("two/none")).rejects.toThrow(ObjectMissing);
    await objects.delete("two/none");
    await objects.put("two/some", Buffer.from("x"));
    await objects.delete("two/some");
    await expect(objects.get("two/some")).rejects.toThrow("there is no object two/some");
  });

  test("lists in the order of keys, from any place on, past the end of a page", async () => {
    const keys = ["three/b/2", "three/b-1", "three/a", "three/b/10", "three/b.x", "three/B", "three/c=1/z", "three/c_"];
    for (const key of keys) await objects.put(key, Buffer.from(key));
    const sorted = [...keys].sort().map((key) => `${key} ${key.length}`);
    expect(await listed(objects, "three/")).toEqual(sorted);
    expect(await listed(objects, "three/b")).toEqual(sorted.filter((key) => key.startsWith("three/b")));
    expect(await listed(objects, "three/b/")).toEqual(["three/b/10 10", "three/b/2 9"]);
    for (const after of ["three/a", "three/b", "three/b/10", "three/b/~", "three/c_"])
      expect(await listed(objects, "three/", after)).toEqual(sorted.filter((key) => key.split(" ")[0]! > after));
    expect(await listed(objects, "nothing/")).toEqual([]);
  });

  test("of those who put a new object at once one wins, and what is there is left alone", async () => {
    const won = await Promise.all(
      Array.from({ length: 10 }, (_, n) => objects.putNew("four/race", Buffer.from(`racer ${n}`))),
    );
    expect(won.filter(Boolean)).toHaveLength(1);
    expect(await text(objects, "four/race")).toBe(`racer ${won.indexOf(true)}`);
    expect(await objects.putNew("four/race", Buffer.from("late"))).toBe(false);
    await objects.delete("four/race");
    expect(await objects.putNew("four/race", Buffer.from("next"))).toBe(true);
  });

  test("refuses keys that could leave the store", async () => {
    for (const key of [
      "../x",
      "a/../b",
      "a/..",
      "/a",
      "a//b",
      "a/",
      "",
      ".",
      "a/./b",
      "ä",
      "a b",
      "a\\b",
      "a\0",
      "x".repeat(513),
    ]) {
      await expect(objects.put(key, Buffer.from("x")), key).rejects.toThrow("is no key of an object");
      await expect(objects.get(key), key).rejects.toThrow("is no key of an object");
    }
  });
});

test("a draft that a crash has left is never listed", async () => {
  const store = join(folder, "drafts");
  const objects = openObjects(pathToFileURL(store).href);
  await objects.put("a/b", Buffer.from("x"));
  expect(readdirSync(store).sort()).toEqual([".drafts", "a"]);
  writeFileSync(join(store, ".drafts", "half"), "hal");
  expect(await listed(objects, "")).toEqual(["a/b 1"]);
});

test("drafts that a killed process has left are removed, and those that may still be written are not", async () => {
  const store = join(folder, "left");
  const url = pathToFileURL(store).href;
  await openObjects(url).put("a/b", Buffer.from("x"));
  for (const [name, hours] of [
    ["dead", 2],
    ["alive", 0.5],
  ] as const) {
    const path = join(store, ".drafts", name);
    writeFileSync(path, "half of a file");
    const at = new Date(Date.now() - hours * 3_600_000);
    utimesSync(path, at, at);
  }
  await openObjects(url).put("a/c", Buffer.from("x"));
  expect(readdirSync(join(store, ".drafts"))).toEqual(["alive"]);
});

test("an object that cannot get its place leaves no draft", async () => {
  const store = join(folder, "refused");
  const objects = openObjects(pathToFileURL(store).href);
  await objects.put("a/b", Buffer.from("x"));
  await expect(objects.put("a", Buffer.from("a folder stands there"))).rejects.toThrow();
  await expect(objects.put("a/b/c", Buffer.from("an object stands on the way"))).rejects.toThrow();
  await expect(objects.putNew("a/b/c", Buffer.from("an object stands on the way"))).rejects.toThrow();
  expect(readdirSync(join(store, ".drafts"))).toEqual([]);
});

test(
  "an object that is gone when it is looked at is not listed; one that cannot be looked at fails " + "the list",
  async () => {
    const store = join(folder, "looked-at");
    const objects = openObjects(pathToFileURL(store).href);
    await objects.put("a/b", Buffer.from("x"));
    symlinkSync(join(store, "nowhere"), join(store, "a", "gone"));
    expect(await listed(objects, "")).toEqual(["a/b 1"]);
    symlinkSync(join(store, "a", "circle"), join(store, "a", "circle"));
    await expect(listed(objects, "")).rejects.toThrow("ELOOP");
  },
);

test("a wrong secret is refused for good, and nothing is stored", async () => {
  const objects = openObjects(s3.url({ secret: "another" }));
  const error = await objects.put("five/x", Buffer.from("x")).catch((thrown) => thrown);
  expect([error.message, classify(error)]).toEqual([
    expect.stringContaining("put five/x: SignatureDoesNotMatch"),
    "fatal",
  ]);
  expect(s3.held.has("five/x")).toBe(false);
});

test("a store that is overloaded once is asked again; one that stays away is reported as away", async () => {
  const objects = openObjects(s3.url());
  s3.failWith(503);
  await objects.put("six/x", Buffer.from("x"));
  s3.failWith(500, 500);
  expect(classify(await objects.get("six/x").catch((thrown) => thrown))).toBe("transient");
  const absent = openObjects("s3://k:s@127.0.0.1:1/bucket?tls=false");
  expect(classify(await absent.put("x", Buffer.from("x")).catch((thrown) => thrown))).toBe("transient");
});

test("an address says what is wrong with it, and never shows its secret", () => {
  expect(s3AddressOf("s3://key:a%2Fb@s3.eu-west-1.amazonaws.com/my-bucket?region=eu-west-1&prefix=shop/a/")).toEqual({
    endpoint: "https://s3.eu-west-1.amazonaws.com",
    region: "eu-west-1",
    bucket: "my-bucket",
    prefix: "shop/a/",
    accessKeyId: "key",
    secretAccessKey: "a/b",
  });
  for (const [url, problem] of [
    ["s3://key:hidden@host/", "must be s3://"],
    ["s3://key:hidden@host/bucket/more", "must be s3://"],
    ["s3://key@host/bucket", "key and secret must be given together"],
    ["s3://key:hidden@host/bucket?ssl=false", "ssl is no setting"],
    ["s3://key:hidden@host/bucket?tls=no", "tls is true or false"],
    ["s3://key:hidden@host/bucket?prefix=../x", "is no key"],
  ] as const) {
    expect(() => s3AddressOf(url), url).toThrow(problem);
    expect(() => s3AddressOf(url), url).not.toThrow("hidden");
  }
  expect(() => openObjects("gs://bucket")).toThrow("gs: is no object storage that is known here");
});
