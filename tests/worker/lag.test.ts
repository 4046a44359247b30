// Lag is reported one round at a time: a hanging broker neither queues rounds nor delays a stop.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { reportLag } from "../../apps/worker/lag.ts";
import type { Admin } from "../../infra/kafka/kafka.ts";

const row = { group: "g", topic: "t", partition: 0, committed: 3, low: 0, high: 5, lag: 2 };

const given = () => {
  const known: string[] = [];
  const world = {
    isHanging: false,
    asked: 0,
    underWay: 0,
    most: 0,
    connections: 0,
    closed: 0,
    warnings: 0,
    set: 0,
    isUnknown: false,
  };
  const hanging = () => new Promise<never>(() => undefined);
  const admin = {
    lag: async () => {
      world.asked += 1;
      world.underWay += 1;
      world.most = Math.max(world.most, world.underWay);
      if (world.isHanging) return hanging();
      world.underWay -= 1;
      return [row];
    },
    close: async () => {
      world.closed += 1;
      world.underWay = 0;
      if (world.isHanging) return hanging();
    },
  } as unknown as Admin;
  const reporting = reportLag({
    kafka: {
      admin: async () => {
        world.connections += 1;
        return admin;
      },
    },
    groups: [{ name: "g", reads: { name: "t" } }],
    metrics: {
      setLag: (_, partitions) => {
        if (partitions === null) world.isUnknown = true;
        else world.set += 1;
      },
      setKnown: (figure, isKnown) => void known.push(`${figure} ${isKnown}`),
    },
    log: {
      warn: () => {
        world.warnings += 1;
      },
    },
    everyMs: 5,
    withinMs: 1_000,
  });
  return { world, known, reporting };
};

test("while the broker hangs one question is under way, and its return ends the outage", async () => {
  const { world, known, reporting } = given();
  await expect.poll(() => world.set).toBeGreaterThan(0);
  world.isHanging = true;
  await expect.poll(() => world.underWay).toBe(1);
  const asked = world.asked;
  await sleep(200);
  expect(world.asked, "no second question while one hangs").toBe(asked);
  expect(world.most).toBe(1);
  world.isHanging = false;
  const set = world.set;
  await expect.poll(() => world.set).toBeGreaterThan(set);
  expect(world).toMatchObject({ warnings: 1, connections: 2, closed: 1 });
  expect(world.isUnknown, "an unknown lag is not kept, and is not 0").toBe(true);
  expect([...new Set(known)]).toEqual(["group_lag true", "group_lag false"]);
  await reporting.stop();
});

test("closing does not wait for a broker that hangs", async () => {
  const { world, reporting } = given();
  await expect.poll(() => world.set).toBeGreaterThan(0);
  world.isHanging = true;
  await expect.poll(() => world.underWay).toBe(1);
  const began = performance.now();
  await reporting.stop();
  expect(performance.now() - began).toBeLessThan(3_000);
  expect(world.warnings).toBe(0);
});
