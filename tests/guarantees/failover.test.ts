// Failover of the edges: whatever happens to the log, an edge or a disk, every event answered with
// 200 is in the log afterwards, with its own id and in the order of its device.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { appendFileSync, chmodSync, closeSync, mkdirSync, openSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { holderIn } from "../../infra/runtime/lock.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { apps } from "../../modules/running/installation/product.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { newSeed } from "../support/e2e-load.ts";
import { environmentOf, type Product, root, until } from "../support/e2e-product.ts";
import { freePort } from "../support/ingest.ts";
import { joinProduct } from "../support/joined-product.ts";

const edges = apps.filter(({ module }) => module === "apps/ingest/main.js");
let product: Product;
let client: number;
let tokens: readonly string[];
let used = 0;
const spawnedHere: ChildProcess[] = [];
beforeAll(async () => {
  product = await joinProduct("failover");
  client = product.client("aurora-music").id;
  tokens = await product.tokens(client, 24);
});
afterAll(async () => {
  for (const child of spawnedHere) child.kill("SIGKILL");
  await product?.clear();
});
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Returns 0 if no answer came. */
const post = async (url: string, device: string, from: number, count: number): Promise<number> => {
  used += 1;
  const events = Array.from({ length: count }, (_, n) => ({
    t: "page_view",
    ts: Date.now() - 1_000,
    cid: client,
    did: device,
    url: "https://shop.example/",
    event_id: `${device}-${from + n}`,
  }));
  try {
    const response = await fetch(`${url}/ingest/batch`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${tokens[used % tokens.length]}`,
        "content-type": "application/json",
        connection: "close",
      },
      body: JSON.stringify({ events }),
      signal: AbortSignal.timeout(20_000),
    });
    const { accepted } = (await response.json()) as { accepted?: number };
    return response.status === 200 && accepted !== count ? -1 : response.status;
  } catch {
    return 0;
  }
};
/** Events answered with 200, in the order of each device. */
const acknowledged: string[] = [];
const sent = (device: string, from: number, count: number): void => {
  for (let n = 0; n < count; n += 1) acknowledged.push(`${device}-${from + n}`);
};

/**
 * Sends one batch of a device after the other, repeats a batch until it is accepted, and uses the
 * other edge if one does not answer.
 */
const sender = (device: string, urls: readonly string[], batch = 20) => {
  const answers = new Map<string, number>();
  let isStopping = false;
  const going = (async () => {
    let edge = 0;
    for (let from = 0; !isStopping; ) {
      const status = await post(urls[edge % urls.length]!, device, from, batch);
      const said = `${edge % urls.length}: ${status}`;
      answers.set(said, (answers.get(said) ?? 0) + 1);
      if (status === 200) {
        sent(device, from, batch);
        from += batch;
      } else edge += 1;
      await pause(status === 200 ? 60 : 100);
    }
  })();
  return {
    answers,
    stop: () => {
      isStopping = true;
      return going;
    },
  };
};

interface Failover {
  readonly active: boolean;
  readonly path: string;
  readonly spooled_events: number;
  readonly last_resort_events: number;
}
const failoverOf = async (url: string): Promise<Failover> =>
  ((await (await fetch(`${url}/health`, { signal: AbortSignal.timeout(10_000) })).json()) as { failover: Failover })
    .failover;
const drained = (url: string) =>
  until("nothing waits at the edge any more", 60_000, async () => {
    const failover = await failoverOf(url);
    if (failover.active || failover.spooled_events > 0) throw new Error(JSON.stringify(failover));
  });
const urlOf = (name: string): string => product.stack.run.apps[name]!.url;
const homeOf = (name: string): string => join(product.stack.home, "spool", name);
const logOf = (name: string): string => readFileSync(join(product.stack.home, "logs", `${name}.log`), "utf8");

const whileFrozen = async (work: () => Promise<void>): Promise<void> => {
  const kafka = product.stack.pid("kafka")!;
  product.stack.kill("kafka", "SIGSTOP");
  try {
    await until("Kafka stands still", 30_000, () =>
      expect(readFileSync(`/proc/${kafka}/stat`, "utf8").split(") ")[1]![0]).toBe("T"),
    );
    await work();
  } finally {
    product.stack.kill("kafka", "SIGCONT");
  }
};

/**
 * Every acknowledged event is in the log, and the events of each device first appear in the order
 * of their answers.
 */
const expectStored = async (): Promise<{ readonly stored: number; readonly again: number }> => {
  // A broker that has just restarted does not lead all of its partitions at once.
  const all = await until("the log can be read", 60_000, () => product.events<EventReceived>("events.raw"));
  const records = all.filter(({ data }) => data.client_id === client);
  const seen = new Set<string>();
  const firsts = new Map<string, string[]>();
  for (const { data } of records) {
    const { sender_event_id: id } = data;
    if (id === null || seen.has(id)) continue;
    seen.add(id);
    const device = id.slice(0, id.lastIndexOf("-"));
    firsts.set(device, [...(firsts.get(device) ?? []), id]);
  }
  expect(acknowledged.filter((id) => !seen.has(id))).toEqual([]);
  for (const [device, ids] of firsts) {
    const numbers = ids.map((id) => Number(id.slice(device.length + 1)));
    expect({ device, numbers }).toEqual({ device, numbers: [...numbers].sort((a, b) => a - b) });
  }
  // One id is one event, however often the log has it (tests/guarantees/counts-once.test.ts).
  expect(new Set(records.map(({ id }) => id)).size).toBe(seen.size);
  return { stored: seen.size, again: records.length - seen.size };
};

test("a log that stands still, and one that is killed, under load: edges answer 200, and all of it is " +
  "in the log in the order of each device", async () => {
  const url = urlOf("ingest");
  const senders = ["frozen-a", "frozen-b", "frozen-c"].map((device) => sender(device, [url]));
  await pause(500);
  await whileFrozen(async () => {
    const path = await until("events wait at the edge", 30_000, async () => {
      const failover = await failoverOf(url);
      if (failover.spooled_events < 100) throw new Error(JSON.stringify(failover));
      return failover.path;
    });
    expect(path).toBe("standby");
  });
  await drained(url);
  const was = product.stack.pid("kafka")!;
  product.stack.kill("kafka", "SIGKILL");
  await until("events wait at the edge", 30_000, async () => {
    const failover = await failoverOf(url);
    if (failover.spooled_events < 20) throw new Error(JSON.stringify(failover));
  });
  await product.stack.ready("kafka", 60_000);
  expect(product.stack.pid("kafka")).not.toBe(was);
  // Senders go on meanwhile.
  await drained(url);
  for (const { stop } of senders) await stop();
  await drained(url);
  const held = await expectStored();
  const answers = senders.map((one) => Object.fromEntries(one.answers));
  console.log(`${held.stored} events, ${held.again} of them twice in the log; answers ${JSON.stringify(answers)}`);
  // A restarted broker may get more requests than it can take at once; any answer other than 200
  // and 503 would be a fault.
  for (const said of senders.flatMap((one) => [...one.answers.keys()])) expect(["0: 200", "0: 503"]).toContain(said);
}, 180_000);

test("kill -9 of the first edge under load: senders go on with the standby, and nothing that either " +
  "acknowledged is missing", async () => {
  const urls = [urlOf("ingest"), urlOf("ingest-standby")];
  const senders = ["switch-a", "switch-b", "switch-c"].map((device) => sender(device, urls));
  await pause(500);
  const { was, is } = await product.replaced("ingest", 60_000);
  expect(is).not.toBe(was);
  await until("every sender has been answered by the standby", 30_000, () => {
    for (const { answers } of senders)
      if (!((answers.get("1: 200") ?? 0) > 3)) throw new Error(JSON.stringify([...answers]));
  });
  for (const { stop } of senders) await stop();
  for (const url of urls) await drained(url);
  await product.stack.ready("ingest", 60_000);
  await expectStored();
  for (const { answers } of senders) expect(answers.get("0: 0") ?? 0).toBeGreaterThan(0);
}, 120_000);

/** Starts an edge outside of the supervisor, which would restart it. */
const edgeApart = async (
  name: string,
  more: Readonly<Record<string, string>>,
  command: (node: readonly string[]) => readonly string[],
) => {
  const [port, opsPort] = [await freePort(), await freePort()];
  const file = join(product.stack.home, "logs", `${name}.log`);
  const output = openSync(file, "a");
  const { env } = product.stack;
  const [program, ...args] = command([process.execPath, "--conditions=faults", "dist/apps/ingest/main.js"]);
  const child = spawn(program!, args, {
    cwd: root,
    env: {
      ...environmentOf(product.stack.home),
      ...env,
      POSTGRES_ADMIN_URL: undefined,
      PORT: String(port),
      OPS_PORT: String(opsPort),
      INSTANCE_NAME: name,
      ...more,
    },
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  spawnedHere.push(child);
  const died = new Promise<NodeJS.Signals | null>((resolve) => child.once("exit", (_code, signal) => resolve(signal)));
  const ready = () =>
    until(`${name} is ready`, 60_000, async () => {
      if (!(await fetch(`http://127.0.0.1:${opsPort}/readyz`)).ok) throw new Error("not yet");
    });
  return { child, died, ready, url: `http://127.0.0.1:${port}` };
};

test("an edge that is killed within 50 ms of its answer has stored what it answered; its next process " +
  "drains that, past a torn tail and a kill between sending and marking", async () => {
  const random = randomFrom(newSeed("kill -9 after the answer"));
  const url = urlOf("ingest");
  const device = "killed";
  let from = 0;
  const sendAndKill = async (): Promise<void> => {
    expect(await post(url, device, from, 20)).toBe(200);
    sent(device, from, 20);
    from += 20;
    await pause(random() * 50);
    await product.replaced("ingest", 60_000);
    await product.stack.ready("ingest", 60_000);
  };
  // Into the log.
  await sendAndKill();
  await whileFrozen(async () => {
    // Both times the events go to the disk, where each later process finds the files and adds to
    // them.
    for (let n = 0; n < 2; n += 1) await sendAndKill();
    expect((await failoverOf(url)).spooled_events).toBe(40);
    // A log that hangs does not delay the stop of a process.
    const before = logOf("ingest").length;
    await product.stack.stop("ingest");
    expect(logOf("ingest").slice(before)).not.toContain("resource.not_closed");
  });
  const segments = readdirSync(homeOf("ingest")).filter((name) => name.endsWith(".spool"));
  expect(segments.length).toBeGreaterThan(0);
  appendFileSync(join(homeOf("ingest"), segments.sort().at(-1)!), Buffer.from([0, 0, 1, 0, 7, 7, 7, 7, 1, 2, 3]));
  const hits = join(product.stack.home, "failover.hits");
  const armed = await edgeApart("ingest", { FAILPOINTS: "drain-after-send=1", FAILPOINT_LOG: hits }, (node) => node);
  expect(await armed.died).toBe("SIGKILL");
  expect(readFileSync(hits, "utf8")).toMatch(/^\d+ drain-after-send 1 killed$/m);
  expect(logOf("ingest")).toContain("spool.tail_cut");
  await product.stack.start(edges.find(({ name }) => name === "ingest")!);
  await drained(urlOf("ingest"));
  const { again } = await expectStored();
  // These events were sent before the kill and again after it.
  expect(again).toBeGreaterThanOrEqual(20);
}, 180_000);

/** The limited disks of docs/design/laws.md, "Faults". */
const DISK = "512k";
/** Small disks in the place of these folders, for every process that starts with these words. */
const limited = async (folders: readonly string[]): Promise<readonly string[]> => {
  const mounts = folders.map((folder) => `mount -t tmpfs -o size=${DISK} tmpfs '${folder}' && `).join("");
  const holder = spawn("unshare", ["-m", "sh", "-c", `${mounts}echo mounted && exec sleep 600`], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  spawnedHere.push(holder);
  await new Promise((resolve, reject) => {
    holder.stdout.once("data", resolve);
    holder.once("exit", () => reject(new Error("the disks are not mounted")));
  });
  return ["nsenter", "-t", String(holder.pid), "-m", "-w"];
};
const isPermitted = spawnSync("unshare", ["-m", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt"]).status === 0;

const disk = isPermitted
  ? `a tmpfs of ${DISK}`
  : "NOT PROVEN with ENOSPC, no tmpfs may be mounted here: the folder is not writable";
test(`a full disk (${disk}) sends events to object storage, when that is full too senders get 503, and an ` +
  "edge that is killed there knows what waits when it starts again", async () => {
  const name = "ingest-full";
  const objects = join(product.stack.home, "objects-full");
  mkdirSync(objects, { recursive: true });
  mkdirSync(homeOf(name), { recursive: true });
  const before = isPermitted ? await limited([homeOf(name), objects]) : [];
  const begun = () =>
    edgeApart(name, { OBJECT_STORE_URL: pathToFileURL(objects).href }, (node) => [...before, ...node]);
  let full = await begun();
  await full.ready();
  if (!isPermitted) chmodSync(homeOf(name), 0o500);
  let from = 0;
  const paths: string[] = [];
  const statuses: number[] = [];
  await whileFrozen(async () => {
    while (!statuses.includes(503) && from < (isPermitted ? 20_000 : 1_000)) {
      const status = await post(full.url, "full", from, 200);
      statuses.push(status);
      if (status === 200) sent("full", from, 200);
      from += 200;
      if (from === 200) paths.push((await failoverOf(full.url)).path);
    }
    const known = await failoverOf(full.url);
    paths.push(known.path);
    full.child.kill("SIGKILL");
    expect(await full.died).toBe("SIGKILL");
    // The last pages too: nothing that takes room can be written any more.
    const filler = join(homeOf(name), "filler");
    if (isPermitted) spawnSync(before[0]!, [...before.slice(1), "sh", "-c", `cat /dev/zero > '${filler}'`]);
    full = await begun();
    await full.ready();
    const { spooled_events, last_resort_events } = await failoverOf(full.url);
    expect({ spooled_events, last_resort_events }).toEqual({
      spooled_events: known.spooled_events,
      last_resort_events: known.last_resort_events,
    });
    expect(spooled_events).toBeGreaterThan(isPermitted ? 0 : -1);
  });
  expect(paths).toEqual(isPermitted ? ["standby", "both_down"] : ["both_down", "both_down"]);
  if (isPermitted) {
    expect(statuses.at(-1)).toBe(503);
    const lines = logOf(name).split("\n");
    for (const event of ["spool.not_written", "last_resort.not_written"])
      expect(lines.find((line) => line.includes(event))).toContain("ENOSPC");
  }
  await drained(full.url);
  await expectStored();
  expect(await post(full.url, "full", from, 10)).toBe(200);
  expect(await failoverOf(full.url)).toMatchObject({ active: false, path: "primary" });
  full.child.kill("SIGTERM");
  await full.died;
  expect(holderIn(join(homeOf(name), "lock.json"))).toBeUndefined();
}, 120_000);
