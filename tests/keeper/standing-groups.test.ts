// The probe of event processing: which group stands, and when it says nothing.
import { expect, test } from "vitest";
import { openStandingGroups, type WaitingPlace } from "../../modules/running/repair/standing-groups.ts";

/** An installation at a time in seconds; `said` is what the probe says, null: all is well. */
const installation = () => {
  const world = {
    seconds: 0,
    places: [] as WaitingPlace[],
    held: new Set<string>(),
    failing: new Set<string>(),
    isReadable: true,
  };
  const look = openStandingGroups({
    places: async () => {
      if (!world.isReadable) throw new Error("the log is away");
      return world.places;
    },
    held: async () => world.held,
    failing: async () => world.failing,
    now: () => world.seconds * 1_000,
  });
  const said = (alerted: string | null = null): Promise<string | null> =>
    look(alerted).then(
      () => null,
      (error: Error) => error.message,
    );
  return { world, said };
};
const place = (group: string, committed: number, lag: number, partition = 0): WaitingPlace => ({
  ...{ group, topic: "claims", partition, committed, lag, needs: ["cache_store"], remembered: [committed] },
});

test("a group whose position stands for 90 s while records wait is named, with how many wait", async () => {
  const { world, said } = installation();
  world.places = [place("tributary.settle", 7, 4), place("tributary.settle", 9, 3, 1), place("tributary.ledger", 5, 0)];
  expect(await said()).toBeNull();
  world.seconds = 90;
  expect(await said()).toBeNull();
  world.seconds = 91;
  expect(await said()).toBe("tributary.settle has not moved for 91 s while 7 records wait");
  world.places = [...world.places, place("tributary.commission", 1, 1)];
  expect(await said()).toBe("tributary.settle has not moved for 91 s while 7 records wait");
  world.seconds = 200;
  expect(await said()).toBe(
    "tributary.settle has not moved for 200 s while 7 records wait, and so do tributary.commission",
  );
});

test("a group that moves, however slowly, is well; one partition that stands is enough to be named", async () => {
  const { world, said } = installation();
  for (let second = 0; second <= 600; second += 30) {
    world.seconds = second;
    world.places = [place("tributary.settle", second, 1_000)];
    expect(await said()).toBeNull();
  }
  for (let second = 630; second <= 750; second += 30) {
    world.seconds = second;
    world.places = [place("tributary.settle", second, 1_000), place("tributary.settle", 3, 1, 5)];
    expect(await said()).toBe(second < 750 ? null : "tributary.settle has not moved for 120 s while 1 records wait");
  }
});

test("the archive, which commits a file at a time, has ten minutes", async () => {
  const { world, said } = installation();
  world.places = [place("tributary.archive", 0, 5)];
  await said();
  world.seconds = 600;
  expect(await said()).toBeNull();
  world.seconds = 601;
  expect(await said()).toContain("tributary.archive has not moved for 601 s");
});

test("a group that an operator holds does not stand", async () => {
  const { world, said } = installation();
  world.places = [place("tributary.settle", 7, 4)];
  await said();
  world.seconds = 300;
  world.held.add("tributary.settle");
  expect(await said()).toBeNull();
});

/** The error of an open incident. */
const opened = "tributary.settle has not moved for 120 s while 4 records wait";

test.each([
  ["a store that it needs fails", { failing: new Set(["cache_store"]) }],
  ["Postgres fails, which all need", { failing: new Set(["relational_store"]) }],
  ["the log cannot be read", { isReadable: false }],
])("while %s it says what it said before, for the cause has an alarm of its own", async (_, change) => {
  const { world, said } = installation();
  world.places = [place("tributary.settle", 7, 4)];
  await said();
  world.seconds = 300;
  Object.assign(world, change);
  expect(await said(opened)).toBe(opened);
  expect(await said()).toBeNull();
});

test("a store that fails explains nothing of a group that does not need it", async () => {
  const { world, said } = installation();
  world.places = [place("tributary.settle", 7, 4)];
  await said();
  world.seconds = 300;
  world.failing = new Set(["object_store", "analytics_store"]);
  expect(await said()).toContain("tributary.settle has not moved for 300 s");
});

test("a group that rebuilds its memory does not stand while it progresses, however long that takes", async () => {
  const { world, said } = installation();
  const rebuilding = (upTo: number): WaitingPlace => ({
    ...place("tributary.settle", 900, 4),
    remembered: [900, upTo],
  });
  for (let second = 0; second <= 600; second += 30) {
    world.seconds = second;
    world.places = [rebuilding(second)];
    expect(await said()).toBeNull();
  }
  world.seconds = 691;
  expect(await said()).toBe("tributary.settle has not moved for 91 s while 4 records wait");
});

test.each([
  ["a hold", { held: new Set(["tributary.settle"]) }, { held: new Set<string>() }],
  ["a store that failed", { failing: new Set(["cache_store"]) }, { failing: new Set<string>() }],
])("when %s ends, a group has 90 s again", async (_, begin, end) => {
  const { world, said } = installation();
  world.places = [place("tributary.settle", 7, 4)];
  const saidAt = (seconds: number) => {
    world.seconds = seconds;
    return said();
  };
  await saidAt(0);
  Object.assign(world, begin);
  for (const second of [60, 300, 600]) expect(await saidAt(second)).toBeNull();
  Object.assign(world, end);
  for (const second of [630, 690]) expect(await saidAt(second)).toBeNull();
  expect(await saidAt(691)).toContain("tributary.settle has not moved for 91 s");
});

test("time in which the log could not be read is no time that a group stood", async () => {
  const { world, said } = installation();
  world.places = [place("tributary.settle", 7, 4)];
  await said();
  world.isReadable = false;
  for (world.seconds = 30; world.seconds <= 600; world.seconds += 30) expect(await said()).toBeNull();
  world.isReadable = true;
  expect(await said()).toBeNull();
  world.seconds += 91;
  expect(await said()).toContain("has not moved");
});

test("a keeper that takes over an open incident keeps it while the group stands, and no longer", async () => {
  const { world, said } = installation();
  world.places = [place("tributary.settle", 7, 4), place("tributary.ledger", 1, 1)];
  expect(await said(opened)).toMatch(/^tributary.settle has not moved for 90 s while 4 records wait$/);
  world.seconds = 30;
  expect(await said(opened)).toContain("tributary.settle has not moved for 120 s");
  world.seconds = 60;
  world.places = [place("tributary.settle", 8, 3), place("tributary.ledger", 1, 1)];
  expect(await said(opened)).toBeNull();
});

test("while a failing store explains it, an incident stays open for a group that it names alone", async () => {
  const { world, said } = installation();
  world.places = [place("tributary.settle", 7, 4), place("tributary.ledger", 1, 1)];
  await said();
  world.seconds = 91;
  world.places = [place("tributary.settle", 8, 3), place("tributary.ledger", 1, 1)];
  world.failing = new Set(["cache_store"]);
  expect(await said(opened)).toBeNull();
});
