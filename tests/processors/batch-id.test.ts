// A batch id holds the answer that its sender got, and cannot be forged.
import fc from "fast-check";
import { expect, test } from "vitest";
import { batchIdKey, batchTag, mintBatchId, readBatchId } from "../../processors/admit/batch-id.ts";

const key = batchIdKey("a secret of at least thirty-two characters");
const other = batchIdKey("another secret of thirty-two characters");
const batch = fc.record({
  client_id: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
  received_at: fc.integer({ min: 1_700_000_000_000, max: 4_000_000_000_000 }),
  random: fc.uint8Array({ minLength: 4, maxLength: 4 }),
  accepted: fc.integer({ min: 0, max: 10_000 }),
  rejected: fc.integer({ min: 0, max: 10_000 }),
  withheld: fc.integer({ min: 0, max: 10_000 }),
});
const minted = fc.tuple(batch).map(([{ received_at, random, ...counts }]) => {
  const said = { ...counts, tag: batchTag(received_at, random) };
  return { said: { ...said, received_at }, id: mintBatchId(said, key) };
});

test("it reads back as it was made, under its own key alone", () =>
  fc.assert(
    fc.property(minted, ({ said, id }) => {
      expect(id).toMatch(/^bat_[A-Za-z0-9_-]{44}$/);
      expect(readBatchId(id, [key])).toEqual(said);
      expect(readBatchId(id, [other])).toBeUndefined();
      expect(readBatchId(id, [other, key]), "as after a rotation").toEqual(said);
    }),
  ));

test("one changed character makes it invalid", () =>
  fc.assert(
    fc.property(minted, fc.integer({ min: 4, max: 47 }), fc.constantFrom(..."AB09-_z"), ({ id }, at, letter) => {
      fc.pre(id[at] !== letter);
      expect(readBatchId(`${id.slice(0, at)}${letter}${id.slice(at + 1)}`, [key])).toBeUndefined();
    }),
  ));

test.each(["", "bat_", "bat_x", `bat_${"A".repeat(44)}`, `bat_${"A".repeat(45)}`, `cnv_${"A".repeat(44)}`])(
  "%s is none",
  (text) => expect(readBatchId(text, [key])).toBeUndefined(),
);

test("the tags of batches stand in the order of their time", () =>
  fc.assert(
    fc.property(batch, batch, (a, b) => {
      fc.pre(a.received_at < b.received_at);
      expect(batchTag(a.received_at, a.random) < batchTag(b.received_at, b.random)).toBe(true);
    }),
  ));
