// Repeated work: one run at a time, a failure is logged and retried, and a stop waits for the
// running one.
import { expect, test } from "vitest";
import { keepDoing, type Schedule } from "../../infra/runtime/timing/schedule.ts";

const until = async (isSo: () => boolean): Promise<void> => {
  for (const deadline = Date.now() + 20_000; !isSo(); await new Promise((resolve) => setTimeout(resolve, 2)))
    if (Date.now() > deadline) throw new Error("waited in vain");
};
const keeping = (schedule: Partial<Schedule> & Pick<Schedule, "work">) => {
  const logs: string[] = [];
  const counts: { readonly done: number; readonly isFailed: boolean }[] = [];
  const backlog: (number | null)[] = [];
  const kept = keepDoing(
    { name: "work", pauseMs: 1, ...schedule },
    {
      log: { warn: (event) => void logs.push(`warn ${event}`), error: (event) => void logs.push(`error ${event}`) },
      metrics: {
        expect: () => undefined,
        countRun: ({ done, isFailed }) => void counts.push({ done, isFailed }),
        setBacklog: (_, waiting) => void backlog.push(waiting?.count ?? null),
      },
    },
  );
  return { ...kept, logs, counts, backlog };
};

test("runs follow each other and never overlap, and each is counted", async () => {
  let running = 0;
  let most = 0;
  const { stop, counts, backlog } = keeping({
    work: async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise((resolve) => setTimeout(resolve, 3));
      running -= 1;
      return 2;
    },
    waiting: async () => ({ count: 5, seconds: 1 }),
  });
  await until(() => counts.length >= 4);
  await stop();
  expect(most).toBe(1);
  expect(counts[0]).toEqual({ done: 2, isFailed: false });
  expect(backlog, "asked for every few seconds, not at every run").toEqual([5]);
});

test("a run that fails is logged and tried again: a warning where it may heal, otherwise an error", async () => {
  const errors: unknown[] = [
    Object.assign(new Error("away"), { code: "ECONNREFUSED" }),
    new TypeError("a fault of the code"),
  ];
  const { stop, logs, counts } = keeping({
    work: async () => {
      const error = errors.shift();
      if (error !== undefined) throw error;
      return 1;
    },
  });
  await until(() => counts.length >= 3);
  await stop();
  expect(logs).toEqual(["warn schedule.failed", "error schedule.failed"]);
  expect(counts.slice(0, 3).map(({ isFailed }) => isFailed)).toEqual([true, true, false]);
});

test("a schedule that gets nowhere grows silent, and one that another process holds does not", async () => {
  const failing = keeping({
    work: async () => {
      throw new Error("never");
    },
  });
  const waiting = keeping({ work: async () => "busy" });
  await until(() => failing.value.silentMs() > 60);
  const runs = waiting.counts.length;
  await until(() => waiting.counts.length > runs);
  expect(waiting.value.silentMs()).toBeLessThan(failing.value.silentMs());
  await Promise.all([failing.stop(), waiting.stop()]);
});

test("a stop waits for the run under way, which hears of it, and no other begins", async () => {
  let runs = 0;
  let isOver = false;
  const { stop } = keeping({
    work: async (isClosing) => {
      runs += 1;
      while (!isClosing()) await new Promise((resolve) => setTimeout(resolve, 1));
      await new Promise((resolve) => setTimeout(resolve, 10));
      isOver = true;
      return 0;
    },
  });
  await until(() => runs === 1);
  await stop();
  expect([runs, isOver]).toEqual([1, true]);
});

test("a long pause is cut short by a stop", async () => {
  const { stop, counts } = keeping({ pauseMs: 3_600_000, work: async () => 0 });
  await until(() => counts.length === 1);
  await stop();
  expect(counts).toHaveLength(1);
});

test("a run that failed slowly asks for no rest", async () => {
  const startedAt = performance.now();
  const { stop, counts } = keeping({
    rest: 1_000,
    work: async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      throw new Error("the store is silent");
    },
  });
  await until(() => counts.length >= 3);
  await stop();
  // With a rest the second run would begin after 20 s.
  expect(performance.now() - startedAt).toBeLessThan(5_000);
});

test("a rest is as long as it may be, which is asked behind each run", async () => {
  const startedAt = performance.now();
  let asked = 0;
  const { stop, counts } = keeping({
    rest: 1_000,
    longestRestMs: () => ++asked * 50,
    work: async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      return 1;
    },
  });
  await until(() => counts.length >= 3);
  await stop();
  const took = performance.now() - startedAt;
  expect(took).toBeGreaterThanOrEqual(50 + 100 + 3 * 19);
  expect(took, "not twenty seconds").toBeLessThan(5_000);
});

test("what waits is shown after a failed run too, and unknown is not zero", async () => {
  const failing = async () => {
    throw new Error("the log is away");
  };
  const readable = keeping({ pauseMs: 60_000, work: failing, waiting: async () => ({ count: 5, seconds: 400 }) });
  await expect.poll(() => readable.backlog).toEqual([5]);
  const unreadable = keeping({ pauseMs: 60_000, work: failing, waiting: failing });
  await expect.poll(() => unreadable.backlog).toEqual([null]);
  for (const { stop } of [readable, unreadable]) await stop();
});
