// The due time of the nightly pass, in Mexico City.
import { expect, test } from "vitest";
import { dueDay } from "../../apps/keeper/schedules/nightly.ts";

test("from 03:30 of Mexico City on the day before is due, until then the one before that", () => {
  const at = (utc: string) => dueDay(Date.parse(utc));
  expect(at("2026-06-15T09:29:59.999Z")).toBe("2026-06-13");
  expect(at("2026-06-15T09:30:00.000Z")).toBe("2026-06-14");
  expect(at("2026-06-16T05:59:59.999Z")).toBe("2026-06-14");
  expect(at("2026-03-01T12:00:00.000Z")).toBe("2026-02-28");
});
