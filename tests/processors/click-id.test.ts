// A click id proves itself, and nothing else passes for one.
import fc from "fast-check";
import { expect, test } from "vitest";
import { clickIdKey, mint, verify } from "../../domain/click-id.ts";

const key = clickIdKey("a secret of the installation", 1);
const random = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]);
const at = Date.UTC(2026, 0, 31, 12);
const clickId = mint(42, at, random, key);

test("a click id shows its link and its time to every holder of the key", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 2 ** 32 - 1 }),
      fc.integer({ min: 0, max: 2 ** 47 }),
      fc.uint8Array({ minLength: 8, maxLength: 8 }),
      (link, time, bits) => {
        expect(verify(mint(link, time, bits, key), [key])).toEqual({ link_id: link, clicked_at: time });
      },
    ),
  );
});

test("a click id is 44 characters that need no escaping in a URL", () => {
  expect(clickId).toMatch(/^[A-Za-z0-9_-]{44}$/);
  expect(encodeURIComponent(clickId)).toBe(clickId);
});

test("a click id with any one bit changed is refused", () => {
  const bytes = Buffer.from(clickId, "base64url");
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const forged = Buffer.from(bytes);
    forged[bit >> 3] = forged[bit >> 3]! ^ (1 << (bit & 7));
    expect(verify(forged.toString("base64url"), [key]), `bit ${bit}`).toBeUndefined();
  }
});

test("no other text stands for the same click id", () => {
  for (const text of [
    `${clickId}=`,
    ` ${clickId}`,
    `${clickId}\n`,
    clickId.slice(1),
    `${clickId}A`,
    clickId.replace(/./, "+"),
    "",
  ])
    expect(verify(text, [key])).toBeUndefined();
});

test("any text is an answer, never an exception", () => {
  fc.assert(fc.property(fc.string(), (text) => verify(text, [key]) === undefined));
});

test("after a rotation ids of both keys are read, and an id whose key is gone is refused", () => {
  const next = clickIdKey("a secret of the installation", 2);
  expect(verify(clickId, [next, key])).toEqual({ link_id: 42, clicked_at: at });
  expect(verify(mint(7, at, random, next), [next, key])).toEqual({ link_id: 7, clicked_at: at });
  expect(verify(clickId, [next])).toBeUndefined();
});

test("another installation's click id is refused", () => {
  expect(verify(mint(42, at, random, clickIdKey("another secret", 1)), [key])).toBeUndefined();
});
