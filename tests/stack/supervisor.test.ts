// The supervisor against obstacles: other stacks, crashed ones, taken ports, damaged folders and
// dying children.
import { fork, spawn } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { App } from "../../infra/embedded/app.ts";
import { boundLog, endProcess, spawnChild } from "../../infra/embedded/child.ts";
import { openHome } from "../../infra/embedded/home.ts";
import { keep } from "../../infra/embedded/keep-running.ts";
import type { Roster } from "../../infra/embedded/roster.ts";
import { startOf } from "../../infra/runtime/lock.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { doctor } from "../../modules/running/installation/doctor.ts";
import { ownConfig, workshop } from "./home-for-test.ts";

const app: App = {
  name: "ingest",
  module: "../tests/stack/app-for-test.mjs",
  args: ["one", "two"],
  env: { EXTRA: "yes" },
  publicUrl: "INGEST_URL",
};
const jsonOf = (file: string) => JSON.parse(readFileSync(file, "utf8"));

describe("a stack with an app", () => {
  const here = workshop();
  afterAll(() => here.clear());

  test("runs its steps between services and apps, and tells scripts everything in run.json", async () => {
    const order: string[] = [];
    const stack = await here.start({
      services: ["redis"],
      steps: [
        {
          name: "topics",
          run: async ({ env, publish }) => {
            order.push(
              env.REDIS_URL !== undefined && here.lines.every((text) => !text.startsWith("ingest"))
                ? "before the app"
                : "too late",
            );
            publish({ admin_token: "t" });
          },
        },
      ],
      apps: [app],
      config: { ...ownConfig(), inherited: { ...ownConfig().inherited, STRANGE_PASSWORD: "of the shell" } },
    });
    expect(order).toEqual(["before the app"]);
    const run = jsonOf(join(here.home, "run.json"));
    expect(run).toEqual({
      ready: true,
      apps: {
        ingest: {
          url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
          ops_url: expect.any(String),
          pid: stack.pid("ingest"),
        },
      },
      services: { redis: { url: stack.env.REDIS_URL, pid: stack.pid("redis") } },
      demo: { admin_token: "t" },
      control: {
        url: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
        token: expect.stringMatching(/^[\w-]{43}$/),
      },
    });
    expect(statSync(join(here.home, "run.json")).mode & 0o777).toBe(0o600);
    expect(statSync(join(here.home, "secrets.json")).mode & 0o777).toBe(0o600);
  });

  test("gives the app its addresses and arguments, no owner's password and none of the shell", async () => {
    const answer = await fetch(jsonOf(join(here.home, "run.json")).apps.ingest.ops_url);
    const { env, args } = (await answer.json()) as { env: Record<string, string>; args: string[] };
    expect(args).toEqual(["one", "two"]);
    expect(env).toMatchObject({
      INSTANCE_NAME: "ingest",
      EXTRA: "yes",
      REDIS_URL: expect.any(String),
      TRIBUTARY_SECRET: expect.stringMatching(/^[\w-]{43}$/),
    });
    expect(env.POSTGRES_ADMIN_URL).toBeUndefined();
    expect(env.STRANGE_PASSWORD).toBeUndefined();
    expect(`http://127.0.0.1:${env.PORT}`).toBe(jsonOf(join(here.home, "run.json")).apps.ingest.url);
    expect(env.INGEST_URL).toBe(`http://127.0.0.1:${env.PORT}`);
  });

  test("starts an app again that died, and says why", async () => {
    const before = jsonOf(join(here.home, "run.json")).apps.ingest;
    await fetch(`${before.ops_url}/die`).catch(() => undefined);
    await until("the app is back", 30_000, async () => {
      const now = jsonOf(join(here.home, "run.json")).apps.ingest.pid;
      if (now === null || now === before.pid) throw new Error(`its process is ${now}`);
    });
    expect(startOf(before.pid)).toBeUndefined();
    expect(here.lines).toContain("ingest exited with code 7; it is started again in 0.25 s.");
  });

  test("refuses a second stack in its folder with the number of the process that has it", async () => {
    await expect(here.start({ services: ["redis"] })).rejects.toThrow(
      `Tributary already runs in ${here.home} as process ${process.pid}`,
    );
  });

  test("is well in the eyes of the doctor", async () => {
    const checks = await doctor(openHome(here.home), ownConfig());
    expect(checks.filter(({ ok }) => !ok)).toEqual([]);
    expect(checks.find(({ name }) => name === "redis")?.detail).toMatch(/^Redis \d/);
  });
});

test("an app whose port another program answers on is not taken for ready", async () => {
  const here = workshop();
  const squatter = createHttpServer((_, response) => void response.end("ready"));
  const started = here.start({
    services: ["redis"],
    steps: [
      {
        name: "squat",
        // Between the choice of the ports and the start of the app.
        run: () =>
          new Promise((resolve) =>
            squatter.listen(jsonOf(join(here.home, "ports.json"))["ingest-ops"], "127.0.0.1", resolve),
          ),
      },
    ],
    apps: [app],
  });
  await expect(started).rejects.toThrow(/port \d+ of ingest is used by another program; end it, or start/);
  squatter.close();
  await here.clear();
});

test("a failing step stops what was started and leaves nothing running", async () => {
  const here = workshop();
  const pids: string[] = [];
  const failing = here.start({
    services: ["redis"],
    steps: [
      {
        name: "migrations",
        run: async () => {
          pids.push(...jsonOf(join(here.home, "children.json")).map(({ pid }: { pid: number }) => pid));
          throw new Error("migration 3 is wrong");
        },
      },
    ],
  });
  await expect(failing).rejects.toThrow("migration 3 is wrong");
  expect(pids).toHaveLength(1);
  expect(pids.map(Number).map(startOf)).toEqual([undefined]);
  expect(existsSync(join(here.home, "run.json"))).toBe(false);
  await here.clear();
});

test("a child that cannot be stopped hides no reason of a failed start, and does not lock the folder", async () => {
  const here = workshop();
  const onEvent = ({ kind }: { readonly kind: string }) => {
    if (kind === "child.stopped") throw new Error("it cannot be stopped");
  };
  const step = {
    name: "migrations",
    run: async () => {
      throw new Error("migration 3 is wrong");
    },
  };
  await expect(here.start({ services: ["redis"], steps: [step], onEvent })).rejects.toThrow("migration 3 is wrong");
  const stack = await here.start({ services: ["redis"], onEvent });
  await expect(stack.stop()).rejects.toThrow("it cannot be stopped");
  expect(existsSync(join(here.home, "run.json"))).toBe(false);
  await (await here.start({ services: ["redis"] })).stop();
  await here.clear().catch(() => undefined);
  rmSync(here.home, { recursive: true, force: true });
});

test("a service that cannot start is reported with the last words of its log", async () => {
  const here = workshop();
  const dying: App = { name: "ingest", module: "../tests/stack/no-such-app.mjs" };
  await expect(here.start({ services: [], apps: [dying] })).rejects.toThrow(
    "no-such-app.mjs is missing; compile first: npm run build.",
  );
  await here.clear();
});

test("half-written data of a store are reported with the cure, and left alone", async () => {
  const here = workshop();
  for (const folder of ["kafka/data", "postgres"]) {
    mkdirSync(join(here.home, folder), { recursive: true });
    writeFileSync(join(here.home, folder, "half"), "");
  }
  chmodSync(here.home, 0o755);
  writeFileSync(join(here.home, "secrets.json"), "{}");
  const [kafka, postgres] = [join(here.home, "kafka", "data"), join(here.home, "postgres")];
  await expect(here.start({ services: ["kafka"] })).rejects.toThrow(
    `${kafka} holds no complete Kafka data; remove that folder to start with an empty log.`,
  );
  await expect(here.start({ services: ["postgres"] })).rejects.toThrow(
    `${postgres} holds no complete Postgres data; remove that folder`,
  );
  expect([kafka, postgres].map((folder) => existsSync(join(folder, "half")))).toEqual([true, true]);
  const fresh = await here.start({ services: ["postgres"], fresh: true });
  expect(fresh.pid("postgres")).toBeDefined();
  await here.clear();
});

test("a server named in the environment is used and not started", async () => {
  const here = workshop();
  const config = { ...ownConfig(), inherited: { ...ownConfig().inherited, REDIS_URL: "redis://127.0.0.1:1" } };
  const stack = await here.start({ services: ["redis"], config });
  expect(stack.run.services).toEqual({ redis: { url: "redis://127.0.0.1:1", pid: null } });
  await here.clear();
});

describe("after a crash of the supervisor", () => {
  const here = workshop();
  afterAll(() => here.clear());

  test("the next start ends its orphans and no other process", async () => {
    const crashing = fork(join(import.meta.dirname, "crash-for-test.mjs"), [here.home], { stdio: "ignore" });
    const pids = await new Promise<Record<string, number>>((resolve) =>
      crashing.once("message", (message) => resolve(message as Record<string, number>)),
    );
    const dead = new Promise((resolve) => crashing.once("exit", (_code, signal) => resolve(signal)));
    crashing.kill("SIGKILL");
    expect(await dead).toBe("SIGKILL");
    for (const pid of Object.values(pids)) expect(startOf(pid)).toBeDefined();

    // A foreign process that meanwhile got a number from our list.
    const stranger = spawn("sleep", ["60"], { stdio: "ignore" });
    const file = join(here.home, "children.json");
    writeFileSync(file, JSON.stringify([...jsonOf(file), { name: "kafka", pid: stranger.pid, started: "1" }]));
    const stack = await here.start({ services: ["redis", "postgres"] });
    for (const pid of Object.values(pids)) expect(startOf(pid)).toBeUndefined();
    expect(startOf(stranger.pid!)).toBeDefined();
    stranger.kill();
    expect(here.lines).toContain(`redis (process ${pids.redis}) was left behind by an earlier start and was ended.`);
    await stack.stop();
  });

  test("cut files and a stale note of a dead Postgres do not hold it up", async () => {
    writeFileSync(join(here.home, "ports.json"), '{ "redis": 2');
    writeFileSync(join(here.home, "children.json"), "");
    writeFileSync(join(here.home, "lock.json"), '{"pid":');
    writeFileSync(join(here.home, "run.json"), "{");
    writeFileSync(join(here.home, "postgres", "postmaster.pid"), `${process.pid}\n${here.home}\n`);
    const stack = await here.start({ services: ["redis", "postgres"] });
    expect(stack.pid("postgres")).toBeDefined();
    await stack.stop();
  });

  test("lost passwords of existing data are reported with the cure", async () => {
    const secrets = readFileSync(join(here.home, "secrets.json"));
    writeFileSync(join(here.home, "secrets.json"), '{"tributary": "');
    await expect(here.start({ services: ["redis"] })).rejects.toThrow(`remove ${here.home} to start afresh`);
    writeFileSync(join(here.home, "secrets.json"), secrets);
  });

  test("a start that works is waited for, one that only waits is not, and its words are of this start", async () => {
    const log = join(here.home, "logs", "start.log");
    writeFileSync(log, "Error: of the start before\n");
    const roster = { add: () => undefined, remove: () => undefined };
    const starting = (script: string) => {
      const began = Date.now();
      return keep(
        {
          ...{ name: "start", log, stopSignal: "SIGKILL", stopWithinMs: 5_000, readyWithinMs: 500 },
          command: () => ({ file: process.execPath, args: ["-e", script] }),
          healthy: async () => {
            if (Date.now() - began < 3_000) throw new Error("not yet");
          },
          prepare: async () => undefined,
          env: () => ({}),
        },
        roster as unknown as Roster,
        () => undefined,
        () => undefined,
      );
    };
    const kept = await starting("for (;;) ;");
    expect(kept.state()).toBe("running");
    await kept.stop();
    await expect(starting("console.log('Error: of this start'); setInterval(() => undefined, 1_000)")).rejects.toThrow(
      /not yet; it said: Error: of this start/,
    );
  });

  test("a log is bounded while its process writes", async () => {
    const log = join(here.home, "logs", "large.log");
    const script = "setInterval(() => console.log('x'.repeat(1_000)), 1)";
    const child = await spawnChild({ file: process.execPath, args: ["-e", script] }, log, {});
    const bounds = boundLog(log, { limitBytes: 50_000, lookMs: 20 });
    await until("it is cut twice", 20_000, () => expect(bounds.cuts()).toBeGreaterThan(1));
    bounds.end();
    await endProcess(child, "SIGKILL", 5_000);
    for (const file of [log, `${log}.1`]) {
      expect(statSync(file).size).toBeLessThan(500_000);
      // A cut leaves no hole in front of what follows.
      expect(readFileSync(file, "utf8")).toMatch(/^[x\n]*$/);
    }
  });

  test("a port that another program took in between is given up for a free one", async () => {
    const port = jsonOf(join(here.home, "ports.json")).redis;
    const squatter = createServer();
    await new Promise<void>((resolve) => squatter.listen(port, "127.0.0.1", resolve));
    const stack = await here.start({ services: ["redis"] });
    const now = Number(new URL(stack.env.REDIS_URL!).port);
    expect(now).not.toBe(port);
    expect(here.lines).toContain(`Port ${port} is used by another program; redis listens on ${now} from now on.`);
    await stack.stop();
    await new Promise((resolve) => squatter.close(resolve));
  });
});
