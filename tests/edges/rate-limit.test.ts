// The window of one process is exact: no stretch of its length holds more than the limit, and not
// one request less is let through.
import fc from "fast-check";
import { expect, test } from "vitest";
import { localWindow } from "../../infra/http/rate-limit.ts";

const limit = 5;
const windowMs = 1_000;
const gaps = fc.array(fc.integer({ min: 0, max: 400 }), { maxLength: 200 });

test("whenever requests come, no stretch of a window holds more than the limit", () => {
  fc.assert(
    fc.property(gaps, (waits) => {
      const window = localWindow({ limit, windowMs });
      let now = 0;
      const allowed: number[] = [];
      for (const wait of waits) {
        now += wait;
        const before = allowed.filter((at) => now - at <= windowMs).length;
        const verdict = window.take("a", now);
        expect(verdict.isAllowed).toBe(before < limit);
        expect(verdict.remaining).toBe(Math.max(0, limit - before - 1));
        if (verdict.isAllowed) allowed.push(now);
        else
          expect(window.take("a", now + verdict.resetMs).isAllowed, "a place is free only after its window").toBe(
            false,
          );
      }
    }),
  );
});

test("a place that was given back is free", () => {
  const window = localWindow({ limit: 1, windowMs });
  expect(window.take("a", 0).isAllowed).toBe(true);
  window.give("a", 0);
  expect(window.take("a", 1).isAllowed).toBe(true);
  expect(window.take("a", 2).isAllowed).toBe(false);
});

test("keys do not count for each other, and ten thousand of them do not stay", () => {
  const window = localWindow({ limit: 1, windowMs });
  for (let n = 0; n < 20_000; n += 1) expect(window.take(`key-${n}`, 0).isAllowed).toBe(true);
  expect(window.take("key-19999", 1).isAllowed).toBe(false);
});
