// The path of an edge: the log, else its disk, else object storage, else 503. Waiting events go
// first and in order, and an edge under load returns from its disk to the log.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { LogUnavailable, Overloaded } from "../../infra/kafka/kafka.ts";
import { fsObjects } from "../../infra/objects/fs.ts";
import { Unavailable } from "../../infra/runtime/errors.ts";
import { openLastResort } from "../../infra/spool/last-resort.ts";
import { openSpool } from "../../infra/spool/spool.ts";
import { openPath, type PathParts } from "../../modules/intake/path/path.ts";
import type { IngestPathCheck } from "../../modules/intake/path/path-checks.ts";
import { openPathChecks } from "../../modules/intake/path/path-checks.ts";
import type { OutputMessage } from "../../stream/messages.ts";

const workshop = mkdtempSync(join(tmpdir(), "path-"));
afterAll(() => rmSync(workshop, { recursive: true, force: true }));
let folders = 0;

const until = async (what: string, isSo: () => boolean): Promise<void> => {
  for (const deadline = Date.now() + 20_000; !isSo(); await new Promise((resolve) => setTimeout(resolve, 2)))
    if (Date.now() > deadline) throw new Error(`waited in vain: ${what}`);
};

/** An edge in a folder of its own, with a log that can be taken away. */
const edge = async (more: Partial<PathParts> & { readonly folder?: string } = {}) => {
  folders += 1;
  const folder = more.folder ?? join(workshop, String(folders));
  const log: string[] = [];
  const logged: string[] = [];
  const world = { isUp: true, isNamed: true, error: undefined as Error | undefined };
  const take = async (messages: readonly OutputMessage[]): Promise<void> => {
    await new Promise(setImmediate);
    if (!world.isUp) throw world.error ?? new LogUnavailable();
    for (const { value } of messages) log.push(value!.toString());
  };
  const say = (event: string) => void logged.push(event);
  const opened = await openPath({
    publish: take,
    setAside: async () => undefined,
    send: take,
    probe: async () => {
      if (!world.isUp) throw new LogUnavailable();
    },
    isNamed: () => world.isNamed,
    openSpool: () => openSpool({ folder: join(folder, "spool"), schemas: {} }),
    lastResort: openLastResort({ objects: fsObjects(join(folder, "objects")), instance: "edge", schemas: {} }),
    log: { info: say, warn: say, error: say },
    ...more,
  });
  const store = (text: string) => opened.value.store([{ topic: "notes", key: null, value: Buffer.from(text) }], "s2s");
  return { folder, log, logged, world, path: opened.value, store, stop: opened.stop };
};
const serial = (from: number, to: number): string[] => Array.from({ length: to - from }, (_, n) => `${from + n}`);

test(
  "events go into the log, then onto the disk while it is away, and from there into the log in " + "their order",
  async () => {
    const { log, logged, world, path, store, stop } = await edge();
    for (const text of serial(0, 5)) await store(text);
    expect([log, path.state().path]).toEqual([serial(0, 5), "primary"]);
    world.isUp = false;
    for (const text of serial(5, 20)) await store(text);
    expect(path.state()).toMatchObject({
      path: "standby",
      active: true,
      spooledEvents: 15,
      byKind: { s2s: 15, clicks: 0, pixel: 0 },
    });
    world.isUp = true;
    for (const text of serial(20, 40)) await store(text);
    await until("the disk is drained", () => !path.state().active);
    for (const text of serial(40, 45)) await store(text);
    expect(log).toEqual(serial(0, 45));
    expect(logged.filter((event) => event !== "drain.waits")).toEqual(["failover.began", "failover.ended"]);
    await stop();
  },
);

test("an edge that never pauses gets back to the log, and no event is overtaken", async () => {
  const { log, world, path, store, stop } = await edge();
  world.isUp = false;
  let next = 0;
  let isStopping = false;
  const senders = Array.from({ length: 8 }, async () => {
    while (!isStopping) {
      next += 1;
      await store(`${next}`);
    }
  });
  await until("some are on the disk", () => path.state().spooledEvents! > 500);
  world.isUp = true;
  await until("it is back", () => !path.state().active);
  const atReturn = log.length;
  await until("it goes on", () => log.length > atReturn + 100);
  isStopping = true;
  await Promise.all(senders);
  await until("all is in the log", () => new Set(log).size === next);
  // Eight senders at once each wait for their answers, so an event passes at most the few that are
  // under way.
  for (const [at, text] of log.entries()) expect(Math.abs(Number(text) - at - 1)).toBeLessThan(16);
  await stop();
});

test("what an edge left on its disk is drained when it starts again, before anything new", async () => {
  const first = await edge();
  first.world.isUp = false;
  for (const text of serial(0, 3)) await first.store(text);
  await first.stop();
  const second = await edge({ folder: first.folder });
  await second.store("3");
  await until("the disk is drained", () => !second.path.state().active);
  expect(second.log).toEqual(serial(0, 4));
  await second.stop();
});

test("two processes cannot have one folder", async () => {
  const first = await edge();
  await expect(edge({ folder: first.folder })).rejects.toThrow(/is held by process/);
  await first.stop();
});

test(
  "without a disk events go to object storage, without that they are refused, and nothing is asked " +
    "again for a while",
  async () => {
    folders += 1;
    const folder = join(workshop, String(folders));
    mkdirSync(folder);
    writeFileSync(join(folder, "spool"), "");
    const { log, logged, world, path, store, stop } = await edge({ folder });
    world.isUp = false;
    await store("a");
    expect(path.state()).toMatchObject({ path: "both_down", lastResortEvents: 1, spooledEvents: null });
    path.expectRoom();
    rmSync(join(folder, "objects"), { recursive: true });
    writeFileSync(join(folder, "objects"), "");
    const refusal = await store("refused").catch((error) => error);
    expect(refusal).toBeInstanceOf(Unavailable);
    expect(refusal.retryAfterSec).toBe(2);
    expect(() => path.expectRoom()).toThrow(Unavailable);
    expect(logged.filter((event) => event !== "drain.waits")).toEqual([
      "spool.not_read",
      "failover.began",
      "last_resort.not_written",
    ]);
    expect(log).toEqual([]);
    await stop();
  },
);

test("a full disk sends events to object storage, and while that holds some the newer ones go there too", async () => {
  const { log, world, path, store, stop } = await edge({
    openSpool: () => openSpool({ folder: join(workshop, "bounded"), schemas: {}, maxMessages: 10 }),
  });
  world.isUp = false;
  for (const text of serial(0, 12)) await store(text);
  expect(path.state()).toMatchObject({ path: "both_down", spooledEvents: 8, lastResortEvents: 4 });
  world.isUp = true;
  await until("all is drained", () => !path.state().active);
  expect(log).toEqual(serial(0, 12));
  await stop();
});

test("while the spool of before cannot be read nothing overtakes it, and what waits is unknown", async () => {
  const folder = join(workshop, "unread");
  const before = await edge({ folder });
  before.world.isUp = false;
  for (const text of serial(0, 5)) await before.store(text);
  await before.stop();
  const world = { isReadable: false };
  const after = await edge({
    folder,
    openSpool: () =>
      world.isReadable ? openSpool({ folder: join(folder, "spool"), schemas: {} }) : Promise.reject(new Error("EIO")),
  });
  const unknown = { spooledEvents: null, oldestSec: null, byKind: null, spoolProblem: "EIO" };
  expect(after.path.state()).toMatchObject({ path: "standby", active: true, ...unknown });
  for (const text of serial(5, 10)) await after.store(text);
  await until("it has tried again", () => after.logged.includes("spool.not_read"));
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  expect(after.log).toEqual([]);
  expect(after.path.state()).toMatchObject({ path: "both_down", lastResortEvents: 5, ...unknown });
  world.isReadable = true;
  await until("all is in the log", () => after.log.length === 10);
  expect(after.log).toEqual(serial(0, 10));
  await until("it is back", () => !after.path.state().active);
  await after.stop();
});

test("object storage that could not be read yet holds an unknown number, and stops no event", async () => {
  const folder = join(workshop, "unlooked");
  const lastResort = openLastResort({ objects: fsObjects(join(folder, "objects")), instance: "edge", schemas: {} });
  const { log, path, store, stop } = await edge({
    folder,
    lastResort: { ...lastResort, look: () => Promise.reject(new Error("no answer")) },
  });
  await store("0");
  expect(log).toEqual(["0"]);
  expect(path.state()).toMatchObject({ path: "primary", spooledEvents: 0, lastResortEvents: null, oldestSec: null });
  await stop();
});

test("more than the log takes is no failover: senders come again", async () => {
  const { world, path, store, stop } = await edge();
  world.isUp = false;
  world.error = new Overloaded();
  expect(await store("a").catch((error: unknown) => error)).toBeInstanceOf(Unavailable);
  expect(path.state().active).toBe(false);
  await stop();
});

test(
  "what is on its way to a slow disk is bounded: senders beyond it come again, and one call of any " + "size is taken",
  async () => {
    folders += 1;
    const folder = join(workshop, String(folders));
    let turnDisk: () => void = () => undefined;
    const turning = new Promise<void>((resolve) => {
      turnDisk = resolve;
    });
    const { world, path, stop } = await edge({
      openSpool: async () => {
        const spool = await openSpool({ folder, schemas: {} });
        return {
          ...spool,
          append: async (...what) => {
            await turning;
            return spool.append(...what);
          },
        };
      },
    });
    world.isUp = false;
    const half = Buffer.alloc(40 * 1024 * 1024);
    const batch = (count: number) => Array.from({ length: count }, () => ({ topic: "notes", key: null, value: half }));
    const taken = path.store(batch(2), "s2s");
    const refusal = await path.store(batch(1), "s2s").catch((error) => error);
    expect(refusal).toBeInstanceOf(Unavailable);
    expect(refusal.retryAfterSec).toBe(2);
    path.expectRoom();
    turnDisk();
    await taken;
    await path.store(batch(1), "s2s");
    expect(path.state()).toMatchObject({ path: "standby", spooledEvents: 3 });
    await stop();
  },
);

test("while schema ids are not known events are kept, although the log is there", async () => {
  const { log, world, path, store, stop } = await edge();
  world.isNamed = false;
  await store("a");
  expect(path.state()).toMatchObject({ path: "standby", active: true });
  world.isNamed = true;
  await until("it is drained", () => !path.state().active);
  expect(log).toEqual(["a"]);
  await stop();
});

test(
  "what was encoded before the ids were known never goes to the log directly, though they are " + "known by now",
  async () => {
    const { log, path, stop } = await edge({
      send: async (messages) => {
        for (const { value } of messages) log.push(`named ${value!.subarray(5)}`);
      },
    });
    const value = Buffer.concat([Buffer.alloc(5), Buffer.from("early")]);
    await path.store([{ topic: "notes", key: null, value }], "s2s");
    await until("it is drained", () => !path.state().active);
    expect(log).toEqual(["named early"]);
    await stop();
  },
);

test(
  "the way is on record at the first look, hourly, and at each change; what could not be recorded " +
    "follows in its order",
  async () => {
    const records: IngestPathCheck[] = [];
    let now = 1_000_000;
    let path: "primary" | "standby" = "primary";
    let isLogUp = true;
    let isStoreUp = true;
    let looks = 0;
    const { stop } = openPathChecks({
      instance: "edge",
      state: () => {
        looks += 1;
        return {
          path,
          active: path !== "primary",
          spooledEvents: 7,
          lastResortEvents: 0,
          oldestSec: 0,
          byKind: { clicks: 0, pixel: 0, s2s: 7 },
          spoolProblem: null,
        };
      },
      probe: async () => {
        if (!isLogUp) throw new Error("no log");
      },
      record: async (check) => {
        if (!isStoreUp) throw new Error("away");
        records.push(check);
      },
      log: { info: () => undefined, warn: () => undefined },
      now: () => now,
      lookMs: 2,
    });
    const looked = async (): Promise<void> => {
      const before = looks;
      await until("it has looked", () => looks > before + 6);
    };
    const states = () => records.map(({ state, reason }) => [state, reason]);
    await looked();
    expect(states()).toEqual([["operational", null]]);
    isStoreUp = false;
    path = "standby";
    await looked();
    path = "primary";
    await looked();
    isStoreUp = true;
    await looked();
    expect(states()).toEqual([
      ["operational", null],
      ["primary_down", null],
      ["operational", null],
    ]);
    expect(records[1]).toMatchObject({ instance: "edge", waiting_events: 7 });
    now += 3_600_000;
    isLogUp = false;
    await looked();
    expect(states().at(-1)).toEqual(["primary_down", "no log"]);
    isLogUp = true;
    await looked();
    expect(states().at(-1)).toEqual(["operational", null]);
    await stop();
  },
);
