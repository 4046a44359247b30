// One watched store with records in memory: Postgres is away, the lease moves to another keeper,
// and no alert can be delivered.
import { expect, test } from "vitest";
import type { Alert } from "../../modules/base/alerts/alert.ts";
import type { ProbeRow } from "../../modules/running/repair/probe-states.ts";
import { selfRepair } from "../../modules/running/repair/self-repair.ts";

const T0 = Date.UTC(2026, 10, 21, 12);
const fresh: ProbeRow = {
  ...{
    name: "relational_store",
    state: "healthy",
    failures: 0,
    since: T0,
    checked_at: null,
    last_ok_at: null,
    last_error: null,
  },
  ...{ failing_since: null, incident_id: null, restarted_at: [] },
};

/** A single keeper whose saves, alerts and restarts are recorded. */
const watched = (name: "relational_store" | "cache_store" = "relational_store") => {
  const world = {
    now: T0,
    isWell: true,
    error: "gone",
    isPostgresAway: false,
    isMailAway: false,
    holder: "me",
    row: { ...fresh, name } as ProbeRow,
    kept: [] as { alert: Alert; isMailed: boolean }[],
    reported: [] as string[],
    restarts: 0,
    order: [] as string[],
    isClosing: false,
    /** Runs before a restart ends. */
    restarting: undefined as (() => Promise<void>) | undefined,
  };
  const asked = async <T>(answer: () => T): Promise<T> => {
    if (world.isPostgresAway) throw new Error("Postgres is away");
    return answer();
  };
  const { work } = selfRepair({
    name,
    look: async () => {
      world.now += 60_000;
      if (!world.isWell) throw new Error(world.error);
    },
    restart: () =>
      name === "cache_store"
        ? async () => {
            world.restarts += 1;
            world.order.push("restarted");
            await world.restarting?.();
          }
        : undefined,
    book: {
      take: () => asked(() => (world.holder === "me" ? world.row : undefined)),
      save: (row, alerts) =>
        asked(() => {
          if (world.holder !== "me") return false;
          world.row = row;
          if (row.state !== "healthy") world.order.push(`saved ${row.state}`);
          for (const one of alerts)
            if (!world.kept.some(({ alert }) => alert === one.alert)) world.kept.push({ ...one });
          return true;
        }),
      unmailed: () => asked(() => []),
    },
    report: async ({ status, severity }) => {
      if (world.isMailAway) throw new Error("no mail server");
      world.reported.push(`${status} ${severity}`);
      world.order.push(`reported ${status}`);
      return true;
    },
    log: { info: () => undefined, warn: () => undefined, error: () => undefined },
    clock: () => world.now,
    timing: { intervalMs: 60_000, recheckMs: 0, probeMs: 1_000 },
  });
  return { world, probe: () => work(() => world.isClosing) };
};

test("while Postgres is away its holder goes on, reports once, and saves what it knows when it is back", async () => {
  const { world, probe } = watched();
  await probe();
  world.isPostgresAway = true;
  world.isWell = false;
  for (let n = 0; n < 5; n += 1) await probe();
  expect(world.reported).toEqual(["down critical"]);
  expect(world.row.state).toBe("healthy");
  world.isPostgresAway = false;
  await probe();
  expect(world.row).toMatchObject({ state: "down", failures: 6 });
  expect(world.kept.map(({ alert: { status }, isMailed }) => [status, isMailed])).toEqual([["down", true]]);
  world.isWell = true;
  await probe();
  await probe();
  expect(world.reported).toEqual(["down critical", "recovered normal"]);
  expect(world.row).toMatchObject({ state: "healthy", failures: 0, incident_id: null });
});

test("what could not be reported while Postgres was away is kept for later", async () => {
  const { world, probe } = watched();
  await probe();
  Object.assign(world, { isPostgresAway: true, isMailAway: true, isWell: false });
  for (let n = 0; n < 4; n += 1) await probe();
  world.isPostgresAway = false;
  await probe();
  expect(world.kept.map(({ isMailed }) => isMailed)).toEqual([false]);
});

test("a keeper that has never held a store does nothing while Postgres is away", async () => {
  const { world, probe } = watched();
  Object.assign(world, { isPostgresAway: true, isWell: false });
  for (let n = 0; n < 4; n += 1) await expect(probe()).rejects.toThrow("Postgres is away");
  expect(world.reported).toEqual([]);
});

test.each([
  "its tables are gone: npx tributary migrate apply",
  "its rows are gone: it has 0, though 7 records of the log were stored in it",
])("a store that has lost its data is not restarted, since that brings none back: %s", async (error) => {
  const { world, probe } = watched("cache_store");
  Object.assign(world, { isWell: false, error });
  for (let n = 0; n < 4; n += 1) await probe();
  expect([world.restarts, world.row.state, world.reported]).toEqual([0, "down", ["down critical"]]);
});

test("a store whose lease went to another is left alone, whatever was about to be done", async () => {
  const { world, probe } = watched("cache_store");
  world.isWell = false;
  await probe();
  await probe();
  world.holder = "another";
  expect(await probe()).toBe("busy");
  expect([world.restarts, world.reported]).toEqual([0, []]);
});

test("a restart is saved before it is done, and the alert of it before it is reported", async () => {
  const { world, probe } = watched("cache_store");
  world.isWell = false;
  for (let n = 0; n < 3; n += 1) await probe();
  expect(world.restarts).toBe(1);
  expect(world.order.filter((step) => step !== "saved failing")).toEqual([
    "saved restarting",
    "restarted",
    "reported down",
    "saved down",
    "reported down",
  ]);
});

test(
  "a keeper that stops does not wait for a store that restarts; its successor looks again and " + "restarts nothing",
  async () => {
    const { world, probe } = watched("cache_store");
    world.isWell = false;
    world.restarting = () => {
      world.isClosing = true;
      return new Promise(() => undefined);
    };
    for (let n = 0; n < 3; n += 1) await probe();
    expect([world.restarts, world.row.state]).toEqual([1, "restarting"]);
    world.isClosing = false;
    await probe();
    expect([world.restarts, world.row.state]).toEqual([1, "down"]);
  },
);

test("a keeper that stops begins no restart, and leaves it to its successor", async () => {
  const { world, probe } = watched("cache_store");
  world.isWell = false;
  for (let n = 0; n < 2; n += 1) await probe();
  world.isClosing = true;
  await probe();
  expect([world.restarts, world.row.state, world.reported]).toEqual([0, "failing", []]);
  world.isClosing = false;
  await probe();
  expect(world.restarts).toBe(1);
});
