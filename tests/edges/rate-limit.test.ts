// The window of one process is exact: no span of its length holds more than the limit, and no
// request below the limit is refused.
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

test("a limit of a key that changes holds from the next request on, and says when a place is free", () => {
  const window = localWindow({ limit, windowMs });
  const take = (now: number, own?: number) => window.take("a", now, own);
  for (let now = 0; now < 8; now += 1) expect(take(now, 8).isAllowed).toBe(true);
  expect(take(8, 8)).toEqual({ isAllowed: false, remaining: 0, resetMs: 992 });
  expect(take(9, 9)).toEqual({ isAllowed: true, remaining: 0, resetMs: 991 });
  // Nine were accepted, so seven must leave the window before three more fit; the seventh came at
  // 6.
  expect(take(10, 3)).toEqual({ isAllowed: false, remaining: 0, resetMs: 996 });
  expect(take(1_006, 3).isAllowed).toBe(false);
  expect(take(1_007, 3).isAllowed).toBe(true);
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
