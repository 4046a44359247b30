// What an edge does not know may be new: it asks Postgres again, and strangers who invent ids make
// it ask ten times a second at most.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { keepSnapshot } from "../../infra/postgres/snapshot.ts";
import { openFresh } from "../../modules/access/secrets/fresh-answers.ts";

/** A snapshot that is not refreshed by itself, and counts how often it was taken. */
const counted = async (take: () => Promise<void> = async () => undefined) => {
  let taken = 0;
  const snapshot = keepSnapshot(
    async () => {
      taken += 1;
      const value = taken;
      await take();
      return { value, asOf: taken };
    },
    { pollMs: 3_600_000 },
  );
  await snapshot.ready;
  return { snapshot, taken: () => taken };
};

test("a snapshot is taken again for who asks, and shared", async () => {
  const { snapshot, taken } = await counted();
  const answers = await Promise.all(Array.from({ length: 1_000 }, () => snapshot.again()));
  expect(new Set(answers)).toEqual(new Set([true]));
  expect([taken(), snapshot.now()!.value]).toEqual([2, 2]);
  const began = performance.now();
  await snapshot.again();
  await snapshot.again();
  expect(taken()).toBe(4);
  expect(performance.now() - began).toBeGreaterThan(150);
  await snapshot.close();
});

test("one that has begun before the question is no answer to it", async () => {
  const { snapshot, taken } = await counted(() => sleep(30));
  const first = snapshot.again();
  await sleep(10);
  const second = snapshot.again();
  await Promise.all([first, second]);
  expect(taken()).toBe(3);
  await snapshot.close();
});

test("while the database is away no one waits for it, and each hears so", async () => {
  let isAway = false;
  const { snapshot, taken } = await counted(async () => {
    if (isAway) throw new Error("away");
  });
  isAway = true;
  expect(await snapshot.again()).toBe(false);
  const asked = taken();
  const began = performance.now();
  const answers = await Promise.all(Array.from({ length: 100 }, () => snapshot.again()));
  expect(new Set(answers)).toEqual(new Set([false]));
  expect(taken()).toBe(asked);
  expect(performance.now() - began).toBeLessThan(900);
  await snapshot.close();
});

test("a database that hangs is waited for one second, by the first who ask", async () => {
  let hangs = false;
  const { snapshot } = await counted(async () => {
    if (hangs) await sleep(2_000);
  });
  hangs = true;
  const began = performance.now();
  expect(await snapshot.again()).toBe(false);
  const waited = performance.now() - began;
  expect(waited).toBeLessThan(1_900);
  expect(await snapshot.again()).toBe(false);
  expect(performance.now() - began - waited, "who comes later does not wait for what is known").toBeLessThan(100);
  hangs = false;
  await sleep(2_000);
  expect(await snapshot.again(), "once it has answered").toBe(true);
  await snapshot.close();
});

test("a secret that does not fit is asked for again, ten times a second for a client", async () => {
  let asked = 0;
  const fresh = openFresh(async (clients) => {
    asked += 1;
    return new Map(clients.map((id) => [id, asked]));
  });
  expect(await fresh.of(1)).toBe(1);
  await fresh.renew(1);
  expect(await fresh.of(1)).toBe(2);
  const renewed = Array.from({ length: 500 }, async () => {
    await fresh.renew(1);
    return fresh.of(1);
  });
  expect(new Set(await Promise.all(renewed))).toEqual(new Set([3]));
  expect(asked).toBe(3);
});
