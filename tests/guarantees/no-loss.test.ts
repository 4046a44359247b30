// kill -9 of the edge and the workers under load: nothing acknowledged is lost, nothing counts twice, and the money is that of the sales that are there.
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { App } from "../../apps/stack/app.ts";
import { apps } from "../../apps/stack/product.ts";
import { expectLaws } from "../support/e2e-laws.ts";
import { eventsOf, type Load, newSeed, openJournal, randomOf, startLoad } from "../support/e2e-load.ts";
import { environmentOf, type Product, root, startProduct, until } from "../support/e2e-product.ts";
import { freePort } from "../support/ingest.ts";

let product: Product;
let tokens: readonly string[];
const spawnedHere: ChildProcess[] = [];
const stages = ["settle", "commission"];
const ofMoney = apps.find(({ name }) => name === "worker-money")!;
// The sinks apart from the stages, so that those can be replaced by armed ones; tests/guarantees/replacement.test.ts kills them together.
const workers: readonly App[] = [
  ...apps.filter((app) => app !== ofMoney),
  { ...ofMoney, args: stages },
  { ...ofMoney, name: "worker-sinks", args: (ofMoney.args ?? []).filter((group) => !stages.includes(group)) },
];
beforeAll(async () => {
  product = await startProduct(workers);
  tokens = await product.tokens(product.client("aurora-music").id, 12);
});
afterAll(async () => {
  for (const child of spawnedHere) child.kill("SIGKILL");
  await product?.clear();
});

const loaded = (run: string, seed: number) => {
  const random = randomOf(seed);
  const journal = openJournal(join(product.stack.home, `${run}.journal`));
  const next = eventsOf(random, run, product.client("aurora-music").id);
  const settings = { url: product.ingestUrl, tokens, next, random, journal, batch: 50, pauseMs: 100 };
  const load: Load = startLoad(settings);
  return { random, journal, load };
};
/** As the supervisor has noted it, from its start on. */
const pidOf = (name: string): number | undefined => {
  const children = JSON.parse(readFileSync(join(product.stack.home, "children.json"), "utf8")) as { name: string; pid: number }[];
  return children.find((child) => child.name === name)?.pid;
};
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

test("rounds of kill -9 of ingest, worker-chain and worker-money under load lose nothing and count nothing twice", async () => {
  const seed = newSeed("kill -9 in rounds");
  const { random, journal, load } = loaded("rounds", seed);
  const kills: string[] = [];
  // Each is killed three times, in an order and at times that the seed tells, whether or not it is back from the last time.
  const names = ["ingest", "worker-chain", "worker-money"];
  const killed = new Map<string, Set<number>>(names.map((name) => [name, new Set()]));
  for (const victims = names.flatMap((name) => [name, name, name]); victims.length > 0; ) {
    const [name] = victims.splice(Math.floor(random() * victims.length), 1) as [string];
    await pause(300 + random() * 1_700);
    const pid = await until(`a new ${name} runs`, 30_000, () => {
      const now = pidOf(name);
      if (now === undefined || killed.get(name)!.has(now)) throw new Error(`its process is ${now}`);
      return now;
    });
    expect(product.stack.kill(name, "SIGKILL")).toBe(true);
    killed.get(name)!.add(pid);
    kills.push(name);
  }
  const healedAt = performance.now();
  for (const [name, pids] of killed) {
    await product.stack.ready(name, 90_000);
    // A cycle that killed nobody would prove nothing.
    expect(pids.size).toBe(3);
    expect(pids.has(product.stack.pid(name)!)).toBe(false);
  }
  await load.stop();
  await product.quiet(60_000);
  const held = await expectLaws(product, "rounds", journal, load.sent);
  console.log(
    `killed ${kills.join(", ")}; answers ${JSON.stringify(load.answers())}; quiet ${Math.round((performance.now() - healedAt) / 1_000)} s later; ${JSON.stringify({ ...held, commission: `${held.commission}` })}`,
  );
  expect(held.orders).toBeGreaterThan(0);
  // While it starts an edge may ask to come again; a token that is good is never refused.
  expect(Object.keys(load.answers()).filter((said) => !["200", "503", "no answer"].includes(said))).toEqual([]);
}, 240_000);

/** A worker outside of the supervisor, which would start it again with the same failpoint. */
const armed = async (group: string, failpoint: string, passing: number): Promise<{ log: string; died: Promise<NodeJS.Signals | null> }> => {
  const name = `armed-${group.split(",")[0]}-${failpoint}`;
  const log = join(product.stack.home, `${name}.hits`);
  const output = openSync(join(product.stack.home, "logs", `${name}.log`), "a");
  const env = {
    ...environmentOf(product.stack.home),
    ...product.stack.env,
    POSTGRES_ADMIN_URL: undefined,
    OPS_PORT: String(await freePort()),
    INSTANCE_NAME: name,
    FAILPOINTS: `${failpoint}=${passing}`,
    FAILPOINT_LOG: log,
  };
  const child = spawn(process.execPath, ["--conditions=faults", "dist/apps/worker/main.js", group], {
    cwd: root,
    env,
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  spawnedHere.push(child);
  return { log, died: new Promise((resolve) => child.once("exit", (_code, signal) => resolve(signal))) };
};

// Every step of the runner, each at a stage where it matters: the first chain remembers in Redis, the other two in Postgres. The later a stage, the
// sooner it dies, for nothing comes to it once the ones before it are dead.
const waves: readonly (readonly (readonly [group: string, failpoint: string, passing: number])[])[] = [
  [
    ["enrich,score,attribute", "after-remember", 3],
    ["settle", "after-produce", 2],
    ["commission", "after-fold", 1],
  ],
  [
    ["enrich,score,attribute", "after-decode", 3],
    ["settle", "after-remember", 2],
    ["commission", "after-commit", 1],
  ],
];

test("workers that die after decode, fold, remember, produce and commit lose nothing and count nothing twice", async () => {
  const seed = newSeed("kill -9 at failpoints");
  for (const name of ["worker-chain", "worker-money"]) await product.stack.stop(name);
  const { journal, load } = loaded("points", seed);
  const proofs: string[] = [];
  for (const wave of waves) {
    const dying = await Promise.all(
      wave.map(async ([group, failpoint, passing]) => ({ failpoint, passing, ...(await armed(group, failpoint, passing)) })),
    );
    for (const { failpoint, passing, log, died } of dying) {
      expect(await died).toBe("SIGKILL");
      const last = existsSync(log) ? readFileSync(log, "utf8").trim().split("\n").at(-1)! : "never hit";
      expect(last).toMatch(new RegExp(`^\\d+ ${failpoint} ${passing} killed$`));
      proofs.push(last);
    }
  }
  await load.stop();
  for (const app of workers) if (["worker-chain", "worker-money"].includes(app.name)) await product.stack.start(app);
  await product.quiet(60_000);
  const held = await expectLaws(product, "points", journal, load.sent);
  console.log(`hits: ${proofs.join(", ")}; ${JSON.stringify({ ...held, commission: `${held.commission}` })}`);
  expect(held.unknown).toBe(0);
}, 240_000);
