// Law C11: the archive covers the log without gap or overlap, whatever is killed when. A restore
// brings back the same bytes, and lost memory is relearnt from the archive where the log no longer
// has the events.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Redis } from "ioredis";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Objects } from "../../infra/objects/objects.ts";
import { openObjects } from "../../infra/objects/open.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { archiving } from "../../modules/log/groups/archive-group.ts";
import { apps } from "../../modules/running/installation/product.ts";
import { filesOf, readFile } from "../../sinks/archive/archive-reads.ts";
import { archiveBehind, checkArchive } from "../../sinks/archive/check.ts";
import { RESTORED_FROM } from "../../sinks/archive/restore.ts";
import { eventsOf, newSeed, openJournal, type SentEvent, startLoad } from "../support/e2e-load.ts";
import { environmentOf, type Product, root, spawned, startProduct, until } from "../support/e2e-product.ts";
import { freePort } from "../support/ingest.ts";

let product: Product;
let objects: Objects;
const spawnedHere: ChildProcess[] = [];
let workers = 0;
beforeAll(async () => {
  // The archive runs in processes of its own, so that each can be killed at a named place.
  product = await startProduct(apps.filter(({ name }) => name === "ingest"));
  objects = openObjects(pathToFileURL(join(product.stack.home, "objects")).href);
});
afterAll(async () => {
  for (const child of spawnedHere) child.kill("SIGKILL");
  await objects?.close();
  await product?.clear();
});

const began = Date.now();
/** Events of devices that identify themselves, which enrich remembers. */
const introduced = (events: readonly SentEvent[]): readonly SentEvent[] =>
  events.map((event) => ({ ...event, props: { ...event.props, email: `${event.did}@shop.example` } }));
const load = async (run: string, seed: number, batches: number) => {
  const random = randomFrom(seed);
  const journal = openJournal(join(product.stack.home, `${run}.journal`));
  const tokens = await product.tokens(product.client("aurora-music").id, 2);
  const draw = eventsOf(random, run, product.client("aurora-music").id);
  const next = (count: number) => introduced(draw(count));
  const running = startLoad({ url: product.ingestUrl, tokens, next, random, journal, batch: 100, pauseMs: 20 });
  await until(`${batches} batches are sent`, 60_000, () => {
    if (running.sent.size < batches * 100) throw new Error(`${running.sent.size} events`);
  });
  await running.stop();
  journal.close();
};

/**
 * Starts a worker outside of the supervisor. With a failpoint, the worker kills itself when it
 * passes the failpoint for the n-th time.
 */
const worker = async (group: string, failpoint?: string, passing = 1) => {
  workers += 1;
  const name = `archive-${workers}`;
  const hits = join(product.stack.home, `${name}.hits`);
  const output = openSync(join(product.stack.home, "logs", `${name}.log`), "a");
  const env = {
    ...environmentOf(product.stack.home),
    ...product.stack.env,
    POSTGRES_ADMIN_URL: undefined,
    OPS_PORT: String(await freePort()),
    INSTANCE_NAME: name,
    ...(failpoint !== undefined && { FAILPOINTS: `${failpoint}=${passing}`, FAILPOINT_LOG: hits }),
  };
  const args = ["--conditions=faults", "dist/apps/worker/main.js", group];
  const child = spawn(process.execPath, args, { cwd: root, env, stdio: ["ignore", output, output] });
  closeSync(output);
  spawnedHere.push(child);
  const died = new Promise<NodeJS.Signals | null>((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
  return { child, died, log: () => readFileSync(join(product.stack.home, "logs", `${name}.log`), "utf8"), hits };
};
const lagOf = async (group: string): Promise<number> => {
  const lags = await product.admin.lag(group, [archiving.topic]);
  return lags.reduce((sum, { lag }) => sum + lag, 0);
};

test("a worker killed while it announces, after a file and before it commits leaves no gap and no " +
  "overlap, and the bytes of the log", async () => {
  const seed = newSeed("archive under kill -9");
  const proofs: string[] = [];
  // Two members share the partitions before there is anything to read, so that the group is awaited
  // once. A later member would also read newer records, and its files would end elsewhere.
  const kills = [["after-announcement", 2] as const, ["after-file", 1] as const];
  const dying = await Promise.all(
    kills.map(async ([failpoint, passing]) => ({
      failpoint,
      passing,
      ...(await worker("archive", failpoint, passing)),
    })),
  );
  for (const { log } of dying)
    await until("both members have joined", 60_000, () => {
      if (!log().includes("app.started")) throw new Error("one has not");
    });
  await load("before", seed, 12);
  for (const { failpoint, passing, died, hits } of dying) {
    expect(await died).toBe("SIGKILL");
    const last = existsSync(hits) ? readFileSync(hits, "utf8").trim().split("\n").at(-1)! : "never hit";
    expect(last).toMatch(new RegExp(`^\\d+ ${failpoint} ${passing} killed$`));
    proofs.push(last);
  }
  await load("after", seed + 1, 12);
  expect(await archiveBehind(product.admin, archiving, 0)).toBeGreaterThan(0);
  const { child, died } = await worker("archive");
  await until("everything is archived", 90_000, async () => {
    const lag = await lagOf(archiving.group);
    if (lag > 0) throw new Error(`${lag} events are not`);
  });
  child.kill("SIGTERM");
  await died;

  const state = await checkArchive(objects, product.admin, archiving);
  expect(state).toMatchObject({ gaps: [], overlaps: [], damaged: [] });
  const inLog = await product.read(archiving.topic);
  expect(state.events).toBe(inLog.length);
  const archived = new Map<string, string>();
  for await (const file of filesOf(objects, archiving.topic))
    for (const { offset, key, value } of (await readFile(objects, file)).records)
      archived.set(`${file.partition}@${offset}`, `${key?.toString("hex")} ${value?.toString("hex")}`);
  for (const { partition, offset, key, value } of inLog)
    expect(archived.get(`${partition}@${offset}`)).toBe(`${key?.toString("hex")} ${value?.toString("hex")}`);
  expect(await archiveBehind(product.admin, archiving, 0)).toBe(0);
  const health = (await (await fetch(`${product.ingestUrl}/health`)).json()) as {
    recovery: { health_check: { wal_ok: boolean } };
  };
  expect(health.recovery.health_check.wal_ok).toBe(true);
  console.log(`hits: ${proofs.join(", ")}; ${state.files} files, ${state.events} events`);
}, 240_000);

test("a changed byte is reported with its file, and so are a missing file and one too many", async () => {
  const files = [];
  for await (const file of filesOf(objects, archiving.topic)) files.push(file);
  const [first, second] = files as [(typeof files)[0], (typeof files)[0]];
  const good = await objects.get(first.key);
  const broken = Buffer.from(good);
  broken[broken.length - 40]! ^= 1;
  await objects.put(first.key, broken);
  const whole = await objects.get(second.key);
  await objects.delete(second.key);
  const state = await checkArchive(objects, product.admin, archiving);
  expect(state.damaged.map(({ key }) => key).sort()).toEqual([first.key, second.key].sort());
  expect(state.gaps).toMatchObject([{ partition: second.partition, from: second.first, until: second.last + 1 }]);
  await objects.put(first.key, good);
  await objects.put(second.key, whole);
  expect(await checkArchive(objects, product.admin, archiving)).toMatchObject({ gaps: [], damaged: [] });
});

const sinceBegan = () => [
  "--from",
  new Date(began - 60_000).toISOString(),
  "--to",
  new Date(Date.now() + 60_000).toISOString(),
];

test("a restore that cannot begin ends, with the reason, and has done nothing", async () => {
  const env = { ...environmentOf(product.stack.home), SCHEMA_REGISTRY_URL: "http://127.0.0.1:1" };
  const { child, done } = spawned(["dist/apps/cli/main.js", "restore", ...sinceBegan(), "--yes"], env);
  const late = setTimeout(() => child.kill("SIGKILL"), 40_000);
  expect(await done).toMatchObject({ code: 1, stderr: expect.stringContaining("the schema registry") });
  clearTimeout(late);
  expect(await product.read("operations")).toEqual([]);
});

test("a restore shows what it would do, brings back the very bytes to the same partitions in order, " +
  "and goes on where it was killed", async () => {
  const window = sinceBegan();
  const dry = await product.tributary("restore", ...window, "--json").done;
  expect(dry.code).toBe(0);
  const inLog = await product.read(archiving.topic);
  const { plan } = JSON.parse(dry.stdout);
  expect(plan).toMatchObject({ events: inLog.length, damaged: [], gaps: [] });
  expect(await product.read("events.restored")).toEqual([]);

  const env = {
    ...environmentOf(product.stack.home),
    FAILPOINTS: "after-restored=5",
    FAILPOINT_LOG: join(product.stack.home, "restore.hits"),
  };
  const dying = spawn(
    process.execPath,
    ["--conditions=faults", "dist/apps/cli/main.js", "restore", ...window, "--yes"],
    {
      cwd: root,
      env,
    },
  );
  expect(await new Promise((resolve) => dying.once("exit", (_code, signal) => resolve(signal)))).toBe("SIGKILL");
  const done = await product.tributary("restore", ...window, "--yes", "--json").done;
  expect(done.stderr).toContain("going on behind archive/events.raw/");
  const { restored } = JSON.parse(done.stdout);
  expect(restored).toMatchObject({ files: plan.files, events: inLog.length, suppressed: 0 });

  const back = await product.read("events.restored");
  // The file that was being restored at the kill came twice; its records are in order both times.
  expect(back.length).toBeGreaterThan(inLog.length);
  const byPlace = new Map(inLog.map((record) => [`${archiving.topic}/${record.partition}@${record.offset}`, record]));
  const seen = new Set<string>();
  const lastOf = new Map<number, number>();
  for (const { partition, key, value, headers } of back) {
    const place = headers[RESTORED_FROM]!;
    const original = byPlace.get(place)!;
    expect([partition, key?.toString("hex"), value?.toString("hex")]).toEqual([
      original.partition,
      original.key?.toString("hex"),
      original.value?.toString("hex"),
    ]);
    if (!seen.has(place)) {
      expect(original.offset).toBeGreaterThan(lastOf.get(partition) ?? -1);
      lastOf.set(partition, original.offset);
    }
    seen.add(place);
  }
  expect(seen.size).toBe(inLog.length);

  const again = await product.tributary("restore", ...window, "--yes").done;
  expect(again.stderr).toContain("this window was brought back at");
  expect((await product.read("events.restored")).length).toBe(back.length);
  const operations = (await product.read("operations")).map(({ event }) => event().data);
  expect(operations.map(({ kind, phase, operation_id }) => [kind, phase, operation_id])).toEqual([
    ["restore", "started", restored.operation_id],
    ["restore", "succeeded", restored.operation_id],
  ]);
}, 120_000);

test("a journey that Redis has lost and the log no longer holds is relearnt from the archive, in silence", async () => {
  const chain = "enrich,score,attribute";
  const redis = new Redis(product.stack.env.REDIS_URL!);
  redis.on("error", () => undefined);
  const memory = async (): Promise<Readonly<Record<string, unknown>>> => {
    const found: Record<string, unknown> = {};
    for (const key of (await redis.keys("memory:*")).sort()) {
      if ((await redis.type(key)) !== "hash") continue;
      const fields = await redis.hgetallBuffer(key);
      found[key] = Object.fromEntries(
        Object.entries(fields)
          .sort()
          .map(([name, value]) => [name, value.toString("hex")]),
      );
    }
    return found;
  };
  const through = () =>
    until("the chain has read everything", 90_000, async () => {
      const lag = await lagOf("tributary.enrich");
      if (lag > 0) throw new Error(`it lags by ${lag}`);
    });
  await load("memory", 7, 3);
  const copying = await worker("archive");
  const first = await worker(chain);
  await through();
  await until("everything is archived", 90_000, async () => {
    if ((await lagOf(archiving.group)) > 0) throw new Error("it is not");
  });
  for (const { child, died } of [copying, first]) {
    child.kill("SIGTERM");
    await died;
  }
  const before = await memory();
  expect(Object.keys(before).length).toBeGreaterThan(0);
  const written = (await product.read("events.attributed")).length;

  await redis.flushall();
  const ends = await product.admin.watermarks(archiving.topic);
  await product.admin.deleteRecords(archiving.topic, new Map(ends.map(({ partition, high }) => [partition, high])));
  expect((await product.admin.watermarks(archiving.topic)).every(({ low, high }) => low === high)).toBe(true);
  // One more event in each partition makes the stage read its memory.
  await load("late", 8, 3);
  const late = await product.read(archiving.topic);
  const second = await worker(chain);
  await through();
  second.child.kill("SIGTERM");
  await second.died;
  expect(second.log()).toContain("memory.lost");
  expect(second.log()).toContain('"read":"past"');
  expect(second.log()).not.toContain("memory.truncated");
  const after = await memory();
  // The late events add fields; earlier fields stay.
  for (const [key, fields] of Object.entries(before)) expect(after[key]).toMatchObject(fields as object);
  expect((await product.read("events.attributed")).length - written).toBeLessThanOrEqual(late.length);
  redis.disconnect();
}, 240_000);
