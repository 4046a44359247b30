// zlib inflates every deflated small value to the original.
import { inflateRawSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { deflater } from "../../infra/postgres/deflate.ts";

const LARGEST = 4_096;
const words = Buffer.from('{"format":2,"lines":[{"product_key":"","status":"credited","partner_id":,"campaign_id":}]}');
const deflate = deflater(words, LARGEST);
const inflate = (bytes: Uint8Array): Buffer => inflateRawSync(bytes, { dictionary: words });
const holds = (value: Uint8Array): void =>
  expect(inflate(deflate(value)).equals(value), Buffer.from(value).toString("base64")).toBe(true);

test("bytes of any kind come back, and so do those that repeat themselves and the words", () => {
  const piece = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc
      .tuple(fc.nat(words.length), fc.nat(words.length))
      .map(([from, to]) => words.subarray(Math.min(from, to), Math.max(from, to))),
    fc
      .tuple(fc.uint8Array({ minLength: 1, maxLength: 6 }), fc.integer({ min: 1, max: 130 }))
      .map(([bytes, times]) => Buffer.concat(Array.from({ length: times }, () => bytes))),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 20 }), fc.boolean(), (pieces, isTwice) => {
      const once = Buffer.concat(pieces);
      holds((isTwice ? Buffer.concat([once, once]) : once).subarray(0, LARGEST));
    }),
    { numRuns: 500 },
  );
});

test("every length of a match and every power of two as its distance is written as zlib reads it", () => {
  const noise = (bytes: number, seed: number): Buffer =>
    Buffer.from(Uint32Array.from({ length: bytes }, (_, n) => Math.imul(n + seed, 2_654_435_761) >>> 13));
  for (let length = 0; length <= 600; length++) holds(Buffer.concat([noise(length, 1), noise(length, 1), noise(9, 7)]));
  const far = deflater(words, 16_000);
  for (let distance = 1; distance <= 8_192; distance *= 2)
    for (const near of [distance - 1, distance, distance + 1]) {
      const value = Buffer.concat([noise(near, 3), noise(near, 3).subarray(0, 40)]);
      expect(inflate(far(value)).equals(value), String(near)).toBe(true);
    }
  const behindZeros = Buffer.concat([noise(300, 5), Buffer.alloc(15_000), noise(300, 5)]);
  expect(inflate(far(behindZeros)).equals(behindZeros)).toBe(true);
});

test("the largest value fits, however little can be made of it", () => {
  holds(new Uint8Array(LARGEST).fill(0xff));
  holds(Uint8Array.from({ length: LARGEST }, (_, n) => 144 + ((n * 7 + (n >> 5) * 13 + (n >> 9)) % 112)));
  holds(new Uint8Array());
  expect(() => deflater(words, 16 * 1024)).toThrow("beyond the reach of a match");
});
