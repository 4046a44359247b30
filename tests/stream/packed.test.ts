// The form of durable memory in Postgres: small enough to be kept for ever, and older forms are
// read.
import { deflateRawSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { packed, unpacked, WORDS } from "../../infra/postgres/packed-values.ts";
import { inMemory } from "../../stream/memory/in-memory.ts";
import type { Memory } from "../../stream/memory/memory.ts";
import { hourMs, noon } from "../support/builders.ts";
import { click, clickBefore, purchase, shop } from "../support/shop.ts";

const GOLDEN = "0SOqCi7OLjUkoho2MqwF10JEVOrDzkQA";
const back = (bytes: Uint8Array): Buffer => unpacked(Buffer.from(packed(bytes)));

test("every value comes back as it was, whatever its bytes and its first one", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), fc.constantFrom(0x01, 0x7b, 0xd0, 0xd1), (bytes, first) => {
      for (const value of [bytes, Uint8Array.of(first, ...bytes)]) expect(back(value)).toEqual(Buffer.from(value));
    }),
  );
  const repeated = Buffer.from('{"format":2,"lines":[]}'.repeat(100));
  expect(packed(repeated).length).toBeLessThan(100);
  expect(back(repeated)).toEqual(repeated);
});

test("values of any size are deflated with the words, by whichever of the two ways", () => {
  const line = '{"format":2,"lines":[{"product_key":"","status":"credited","partner_id":21}]}\n';
  for (const length of [256, 4_096, 8_191, 8_192, 8_193, 40_000]) {
    const value = Buffer.from(line.repeat(600).slice(0, length));
    const stored = Buffer.from(packed(value));
    expect(stored.length).toBeLessThan(length / 4);
    expect(unpacked(stored)).toEqual(value);
  }
});

test("what was stored before values were packed is read as it lies", () => {
  for (const value of ['{"format":1}', "[2,null]", `\x01${"x".repeat(999)}`])
    expect(unpacked(Buffer.from(value)).toString()).toBe(value);
});

test("what zlib packed, in a window of either size, is read as what is packed now", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 5_000 }), fc.constantFrom(13, 15), (text, windowBits) => {
      const deflated = deflateRawSync(text, { dictionary: WORDS, level: 1, windowBits, memLevel: 5 });
      expect(unpacked(Buffer.concat([Buffer.of(0xd1), deflated])).toString()).toBe(Buffer.from(text).toString());
    }),
    { numRuns: 30 },
  );
});

test("what was packed by an earlier version of this code is read by today's", () => {
  const stored = Buffer.from(GOLDEN, "base64");
  expect(unpacked(stored).toString()).toBe(
    `{"format":2,"lines":[{"product_key":"sku1","status":"credited","partner_id":21}]}\n`.repeat(4),
  );
});

test("a conversion has less than 2 KiB of durable memory, with the outcomes and keys of both stages", async () => {
  const durable = inMemory("durable");
  const stored = new Map<string, number>();
  const measuring: Memory = {
    load: durable.load,
    remember: (batch) => {
      for (const { stage, changes, outcomes } of batch) {
        for (const { key, value } of changes) stored.set(`${stage} ${key}`, key.length + packed(value).length);
        for (const { eventId, bytes } of outcomes)
          stored.set(`${stage} ${eventId}`, eventId.length + packed(bytes).length);
      }
      return durable.remember(batch);
    },
  };
  const { post, entries } = shop({}, { memories: { fast: inMemory("fast"), durable: measuring } });
  const clicked = clickBefore(hourMs);
  const seen = {
    ip: "189.203.54.17",
    ua:
      "Mozilla/5.0 (iPhone; CPU iPhone OS 17_4_1 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
      "Version/17.4.1 Mobile/15E148 Safari/604.1",
    url: "https://www.casa-verde.example/checkout/thanks?utm_source=newsletter&utm_campaign=junio",
    ref: "https://www.casa-verde.example/checkout/payment",
  };
  const sale = purchase({ svc_click_id: clicked, ...seen }, { order_id: "CV-2026-061544-81", coupon: "VERDE10" });
  await post([click(clicked, { ts: noon - hourMs })]);
  await post([sale], { isClientSide: true });
  expect(entries()).toMatchObject([{ kind: "earned", amount_minor: 10_00n }]);
  expect(stored.size).toBe(4);
  const sum = [...stored.values()].reduce((all, size) => all + size, 0);
  expect(sum, JSON.stringify([...stored])).toBeLessThan(2_048);
});
