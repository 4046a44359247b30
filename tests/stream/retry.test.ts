// Retries one step with full jitter until a deadline, on the test's own clock.
import { expect, test } from "vitest";
import { type Clock, retry } from "../../infra/runtime/timing/retry.ts";

const away = Object.assign(new Error("away"), { code: "ECONNREFUSED" });

/** Time only passes during sleeps. */
const ownClock = (random = 1): Clock & { readonly waits: number[] } => {
  let now = 0;
  const waits: number[] = [];
  return {
    waits,
    now: () => now,
    random: () => random,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      waits.push(ms);
      now += ms;
    },
  };
};
const failing = (times: number, error: unknown = away) => {
  let tries = 0;
  return async () => {
    if (++tries <= times) throw error;
    return tries;
  };
};

test("a transient error is tried again, each wait up to twice as long as the one before", async () => {
  const clock = ownClock();
  await expect(retry(failing(4), { deadlineMs: 10_000, firstMs: 100, maxMs: 500, clock })).resolves.toBe(5);
  expect(clock.waits).toEqual([100, 200, 400, 500]);
});

test("jitter is full: a wait may be anything down to nothing", async () => {
  const clock = ownClock(0);
  await retry(failing(3), { deadlineMs: 10_000, clock });
  expect(clock.waits).toEqual([0, 0, 0]);
});

test("anything but a transient error is thrown at once", async () => {
  const clock = ownClock();
  const bug = new Error("bug");
  await expect(retry(failing(1, bug), { deadlineMs: 10_000, clock })).rejects.toBe(bug);
  expect(clock.waits).toEqual([]);
});

test("after the deadline the step's own error is thrown", async () => {
  const clock = ownClock();
  await expect(retry(failing(100), { deadlineMs: 1_000, firstMs: 400, maxMs: 400, clock })).rejects.toBe(away);
  expect(clock.waits).toEqual([400, 400]);
});

test("an abort ends the waiting", async () => {
  const aborted = AbortSignal.abort();
  await expect(retry(failing(100), { deadlineMs: 10_000, clock: ownClock(), signal: aborted })).rejects.toBe(away);
});

test("what happens before a wait may end the retrying", async () => {
  const lost = new Error("membership lost");
  const beforeWait = () => Promise.reject(lost);
  await expect(retry(failing(100), { deadlineMs: 10_000, clock: ownClock(), beforeWait })).rejects.toBe(lost);
});
