// Identifiers become keyed hashes, and remembering the latest ones does not change them.
import { createHash, createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { identifierHash, identifyFor, keyedHash, pepperOf } from "../../domain/device-id.ts";
import { hmacOf } from "../../domain/hmac.ts";

const pepper = pepperOf("a secret of the installation", 7);

test("a device id is kept as HMAC(pepper of the client, SHA-256(device id))", () => {
  const sha256 = createHash("sha256").update("device-1").digest("hex");
  expect(identifierHash(pepper, "device-1")).toBe(createHmac("sha256", pepper).update(sha256).digest("hex"));
});

test("what a browser hashed before is kept as the same value", () => {
  expect(keyedHash(pepper, createHash("sha256").update("ana@example.com").digest("hex"))).toBe(
    identifierHash(pepper, "ana@example.com"),
  );
});

test("equal device ids of two clients do not meet", () => {
  expect(identifierHash(pepperOf("a secret of the installation", 8), "device-1")).not.toBe(
    identifierHash(pepper, "device-1"),
  );
});

test("the memory of the latest ids changes no answer, however small it is", () => {
  const remembered = identifyFor(pepper, 3);
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[a-f]$/), { maxLength: 50 }), (ids) =>
      ids.every((id) => remembered.plain(id) === identifierHash(pepper, id)),
    ),
  );
});

test("two plain hashes are the HMAC of OpenSSL, for a key and a text of any length", () => {
  const texts = fc.string({ unit: "grapheme", maxLength: 70 });
  const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((given) => Buffer.from(given));
  fc.assert(
    fc.property(bytes(100), fc.array(fc.oneof(bytes(70), texts)), (key, given) => {
      const hmac = hmacOf(key, 33);
      return [...given, Buffer.alloc(33, 7), "x".repeat(33), `${"x".repeat(32)}ñ`].every(
        (text) => hmac(text) === createHmac("sha256", key).update(text).digest("hex"),
      );
    }),
  );
});
