// All processes share one window for a key on a real Redis, also when concurrent requests reserve
// their places in one call.
import { afterAll, expect, test } from "vitest";
import { openRateLimit, type RateLimit } from "../../infra/http/rate-limit.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { sharedStack } from "../support/shared-stack.ts";

const warnings: string[] = [];
const log = { debug: () => undefined, info: () => undefined, error: () => undefined };
const opened: RateLimit[] = [];
/** A separate process, with its own connection to Redis. */
const openOne = async (url = sharedStack().env.REDIS_URL!): Promise<RateLimit> => {
  const one = openRateLimit(url, { limit: 100, windowMs: 60_000 }, {
    ...log,
    warn: (name: string) => void warnings.push(name),
  } as never);
  opened.push(one);
  return one;
};
const ready = async (): Promise<RateLimit> => {
  const one = await openOne();
  await until("Redis", 10_000, () => one.ping());
  return one;
};
afterAll(() => {
  for (const one of opened) one.close();
});
let made = 0;
const freshKey = (): string => `test:${process.pid}:${Date.now()}:${++made}`;
const allowedOf = (verdicts: readonly { readonly isAllowed: boolean }[]): number =>
  verdicts.filter(({ isAllowed }) => isAllowed).length;

test("of 400 requests that arrive together at two processes the limit of a hundred is let through", async () => {
  const [first, second] = [await ready(), await ready()];
  const key = freshKey();
  const verdicts = await Promise.all(
    Array.from({ length: 400 }, (_, n) => (n % 2 === 0 ? first : second).take(key, 100)),
  );
  expect(allowedOf(verdicts)).toBe(100);
  expect(verdicts.filter(({ isAllowed }) => !isAllowed).every(({ resetMs }) => resetMs > 50_000)).toBe(true);
  expect(warnings).toEqual([]);
});

test("each of a thousand keys that are asked for together has its own places and its own limit", async () => {
  const one = await ready();
  const keys = Array.from({ length: 1_000 }, freshKey);
  const limitOf = (n: number): number => 1 + (n % 3);
  const asked = keys.flatMap((key, n) => [0, 1].map(() => one.take(key, limitOf(n))));
  const verdicts = await Promise.all(asked);
  for (const n of keys.keys()) {
    const [before, then] = [verdicts[2 * n]!, verdicts[2 * n + 1]!];
    expect(before).toMatchObject({ isAllowed: true, remaining: limitOf(n) - 1 });
    expect(then).toMatchObject({ isAllowed: limitOf(n) > 1, remaining: Math.max(0, limitOf(n) - 2) });
  }
  expect(warnings).toEqual([]);
});

test("without Redis the process counts by itself, also for those who waited for a call", async () => {
  const one = await openOne("redis://127.0.0.1:1");
  const verdicts = await Promise.all(Array.from({ length: 600 }, () => one.take("a", 500)));
  expect(allowedOf(verdicts)).toBe(500);
  expect(warnings).toContain("rate_limit.local");
});
