// `npm start` for a new user: the story is run once, its data is found again, a second story runs
// in the same folder, and Ctrl-C stops everything that it started and nothing else.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, onTestFailed, test } from "vitest";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { openPool } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { startOf } from "../../infra/runtime/lock.ts";
import { tellStory } from "../../tools/stack/tell-story.ts";
import { workshop } from "../stack/home-for-test.ts";
import { environmentOf, spawned, until } from "../support/e2e-product.ts";

const here = workshop();
const { home } = here;
const started: ChildProcess[] = [];
afterAll(async () => {
  for (const child of started) child.kill("SIGKILL");
  await here.clear();
});

const start = (...flags: readonly string[]) => {
  const running = spawned(["dist/tools/stack/main.js", ...flags], environmentOf(home), true);
  started.push(running.child);
  return running;
};
const tableOf = (stdout: string): readonly string[] => {
  const lines = stdout.split("\n");
  return lines.slice(lines.findIndex((line) => line.startsWith("what happened")));
};
const expectStory = (stdout: string): void => {
  expect(stdout).toContain("POST /ingest/batch: 9 accepted, 1 rejected");
  const lines = tableOf(stdout);
  const row = / (?<t>click|page_view|purchase|refund) +(?<value>[\d.]+|-) +(?<became>\w.*?) +(?:\d+|-) +(?:\d+|-)$/;
  const became = lines.flatMap((line) => {
    const { t, value, became: what } = row.exec(line)?.groups ?? {};
    return t === undefined ? [] : `${t} ${value} ${what}`;
  });
  expect(became).toEqual([
    "click - attributed click",
    "page_view - attributed click",
    "purchase 1000.00 attributed click",
    "purchase 499.00 unattributed no_click",
    "purchase 850.00 unattributed bad_click_id",
    "purchase 250.00 attributed rule",
    "purchase 300.00 unattributed campaign_inactive",
    "purchase 1000.00 merged",
    "refund 250.00 refund",
    "purchase - refused",
  ]);
  const booked = lines
    .filter((line) => /^story-\S+-order-\d/.test(line))
    .map((line) => line.split(/ +/).slice(1, 5).join(" "));
  expect(booked.map((line) => line.replace(/ \d+ /, " "))).toEqual([
    "earned 120.00 MXN",
    "reversal -30.00 MXN",
    "earned 10.00 MXN",
  ]);
  expect(lines).toContain("ledger balance of casa-verde: 0.00 MXN");
};
/**
 * Every process that descends from this one, with its start time, so that a later process with the
 * same number is distinguished.
 */
const descendants = (ancestor: number): ReadonlyMap<number, string> => {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, "utf8");
        return [[Number(name), Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1])] as const];
      } catch {
        return [];
      }
    });
  const found = new Map<number, string>();
  for (let generation = [ancestor]; generation.length > 0; ) {
    generation = parents.filter(([, parent]) => generation.includes(parent)).map(([pid]) => pid);
    for (const pid of generation) found.set(pid, startOf(pid) ?? "gone");
  }
  return found;
};
const survivors = (processes: ReadonlyMap<number, string>): readonly number[] =>
  [...processes].filter(([pid, born]) => startOf(pid) === born).map(([pid]) => pid);

/** The Postgres login of each app; an idle app closes its connections. */
const loginsIn = async (url: string): Promise<readonly string[]> => {
  const pool = openPool(url, { max: 1 });
  const seen = new Set<string>();
  try {
    await until("each app was seen in Postgres", 60_000, async () => {
      const { rows } = await pool.query<{ login: string; app: string }>(
        "select distinct usename::text as login, split_part(application_name, '-', 2) as app from pg_stat_activity " +
          "where application_name ~ '^tributary-(ingest|pixel|worker|api|keeper)'",
      );
      for (const { login, app } of rows) seen.add(`${app} as ${login}`);
      const apps = new Set([...seen].map((line) => line.split(" ")[0]));
      if (apps.size < 5) throw new Error(`so far ${[...seen].join(", ")}`);
    });
    return [...seen].sort();
  } finally {
    await pool.end();
  }
};

test("--once tells the story, prints what came out, and leaves nothing running", async () => {
  const running = start("--once");
  showOnFailure(running.stdout);
  let seen: ReadonlyMap<number, string> = new Map();
  await until("its apps run", 60_000, () => {
    seen = descendants(running.child.pid!);
    if (!running.stdout().includes("worker-money is ready")) throw new Error(`so far ${seen.size} processes`);
  });
  const ran = await running.done;
  expect(ran).toMatchObject({ code: 0, stderr: "" });
  expectStory(ran.stdout);
  expect(ran.stdout).toContain("everything came out as the story says");
  // Five servers, the identity provider and three apps, and their children.
  expect(seen.size).toBeGreaterThanOrEqual(9);
  expect(survivors(seen)).toEqual([]);
}, 120_000);

/** The number of stored events. */
const storedIn = async (url: string): Promise<unknown> => {
  const clickhouse = openClickhouse(url);
  const answer = await clickhouse.query({
    query: "select toUInt32(uniqExact(event_id)) as events from events",
    format: "JSONEachRow",
  });
  const [row] = await answer.json<{ events: number }>();
  await clickhouse.close();
  return row?.events;
};
/** Runs the story again on the stack in the folder; returns its output. */
const secondStory = async ({ apps, services, demo }: any): Promise<string> => {
  const { tributary } = JSON.parse(readFileSync(join(home, "secrets.json"), "utf8"));
  const lines: string[] = [];
  const problems = await tellStory(
    {
      ...{ ingestUrl: apps.ingest.url, clickhouseUrl: services.clickhouse.url, postgresUrl: services.postgres.url },
      ...{ secret: keyringOf(tributary).newest, demo },
    },
    (text) => void lines.push(text),
  );
  expect(problems).toEqual([]);
  return lines.join("\n");
};

/** Shows the output of a stack and the log of its edge, because their folder goes with the test. */
const showOnFailure = (stdout: () => string): void =>
  onTestFailed(() => {
    const log = join(home, "logs", "ingest.log");
    console.error(`${stdout()}\n${existsSync(log) ? readFileSync(log, "utf8").slice(-4_000) : "no log of ingest"}`);
  });

test("the next start finds it, a second story comes out the same, and Ctrl-C stops it all and nothing else, though " +
  "its window is closed", async () => {
  const running = start("--no-demo");
  showOnFailure(running.stdout);
  const stranger = spawn("sleep", ["120"], { stdio: "ignore" });
  started.push(stranger);
  const run = join(home, "run.json");
  await until("the stack is ready", 60_000, () => {
    if (!JSON.parse(readFileSync(run, "utf8")).ready) throw new Error("not yet");
  });
  const seen = descendants(running.child.pid!);
  expect(seen.size).toBeGreaterThanOrEqual(9);
  const installation = JSON.parse(readFileSync(run, "utf8"));
  const { services } = installation;
  expect(await storedIn(services.clickhouse.url)).toBe(9);
  expectStory(await secondStory(installation));
  expect(await storedIn(services.clickhouse.url)).toBe(18);
  expect(await loginsIn(services.postgres.url)).toEqual(
    ["api as api", "ingest as ingest", "keeper as keeper", "pixel as pixel", "worker as worker"].map((login) =>
      login.replace(" as ", " as tributary_app_"),
    ),
  );

  // A terminal signals the whole foreground group, and the servers are not in it.
  process.kill(-running.child.pid!, "SIGINT");
  await until("it begins to stop", 20_000, () => {
    if (!running.stdout().includes("The stack is being stopped.")) throw new Error("not yet");
  });
  // The terminal closes during the stop, so no process reads the output.
  process.kill(-running.child.pid!, "SIGHUP");
  running.child.stdout!.destroy();
  expect(await running.done).toMatchObject({ code: 0, stderr: "" });
  expect(survivors(seen)).toEqual([]);
  expect(existsSync(run)).toBe(false);
  expect(startOf(stranger.pid!)).toBeDefined();
  stranger.kill();
}, 120_000);
