// A signature is good only for exactly the bytes that were sent.
import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import { isSignatureOf } from "../../domain/hmac.ts";

const secret = "ab".repeat(32);
const body = Buffer.from('{"b": 1,\n "a":2.50, "a":2.5}');
const signed = (bytes: Buffer | string, key = secret): string => createHmac("sha256", key).update(bytes).digest("hex");
const isGood = (signature: string, known: string | undefined = secret): boolean =>
  isSignatureOf(body, signature, known, "dummy");

test("the signature of the bytes as they are is good, in capital letters too", () => {
  expect([isGood(signed(body)), isGood(signed(body).toUpperCase())]).toEqual([true, true]);
});

test("the signature of the same JSON, written otherwise, is not", () => {
  expect(isGood(signed(JSON.stringify(JSON.parse(String(body)))))).toBe(false);
  expect(isGood(signed(Buffer.concat([body, Buffer.from("\n")])))).toBe(false);
});

test("no other form is, and none throws", () => {
  const good = signed(body);
  const wrong = [
    "",
    good.slice(1),
    `${good}0`,
    `${good.slice(1)}g`,
    ` ${good}`,
    `sha256=${good}`,
    "\u{1d7d9}".repeat(64),
  ];
  for (const one of [...wrong, signed(body, "cd".repeat(32))]) expect([one, isGood(one)]).toEqual([one, false]);
});

test("one that was made with what stands for a secret that is not there is not either", () => {
  expect(isSignatureOf(body, signed(body, "dummy"), undefined, "dummy")).toBe(false);
});
