// A conversion as a row of the table.
import { expect, test } from "vitest";
import { conversionRows } from "../../sinks/conversions/rows.ts";
import { contentHash } from "../../sinks/shared-columns.ts";
import { topics } from "../../topics.ts";
import { conversion, recorded } from "../support/builders.ts";

const hashOf = (data: ReturnType<typeof conversion>) =>
  conversionRows(recorded(topics.conversions, data))[0]?.content_hash;

test("a conversion of before its newer fields were named has the content that it had", () => {
  const { device, known_at, recalculates, hold_from, dated_by, dated_because, ...before } = conversion();
  expect([device, known_at, recalculates]).toEqual([null, null, true]);
  expect([hold_from, dated_by, dated_because]).toEqual([null, null, null]);
  expect(hashOf(conversion())).toBe(contentHash(Object.values(before)));
  expect(hashOf(conversion({ known_at: 1 }))).not.toBe(hashOf(conversion()));
  expect(hashOf(conversion({ recalculates: false }))).not.toBe(hashOf(conversion()));
  for (const over of [{ hold_from: 1 }, { dated_by: "receipt" }, { dated_because: "late_event" }])
    expect(hashOf(conversion(over))).not.toBe(hashOf(conversion()));
  expect(hashOf(conversion({ device: "d1" }))).not.toBe(hashOf(conversion()));
});
