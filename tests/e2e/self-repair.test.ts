// Self-repair on real servers: stores that hang are restarted once, a store that cannot be
// restarted is reported as down, and each gets one alert and one message of its recovery.
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openRepairs } from "../../apps/keeper/schedules/repairs.ts";
import { openKafka } from "../../infra/kafka/kafka.ts";
import { readMail } from "../../infra/mail/read-mail.ts";
import { openPool, sql, transaction } from "../../infra/postgres/sql.ts";
import { openLog } from "../../infra/runtime/log.ts";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { controlOf } from "../../infra/runtime/stack-control.ts";
import { keepDoing } from "../../infra/runtime/timing/schedule.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { listAlerts } from "../../modules/base/alerts/kept-alerts.ts";
import { type Outage, violationsOfReporting } from "../../modules/base/alerts/reported-once.ts";
import { listProbes } from "../../modules/running/repair/probe-states.ts";
import { type RunningApi, startApi } from "../support/api.ts";
import { spawned } from "../support/e2e-product.ts";
import { sharedStack } from "../support/shared-stack.ts";

// In the product these are minutes. A probe that hangs for this long has failed, so the machine
// must not be too busy.
const TIMING = { intervalMs: 500, recheckMs: 1_500, probeMs: 4_000 };
const DOCS = "https://wiki.example/tributary";
const { env } = sharedStack();
const folder = mkdtempSync(join(tmpdir(), "tributary-repair-"));
const objects = join(folder, "objects");
const pool = openPool(env.POSTGRES_URL!, { max: 2 });
const control = controlOf(JSON.parse(readFileSync(join(env.TRIBUTARY_HOME!, "run.json"), "utf8")));
const tributary = (...args: readonly string[]) =>
  spawned(["dist/apps/cli/main.js", ...args], { ...process.env, ...env }).done;
const began = Date.now();
let running: RunningApi;
const stops: (() => unknown)[] = [];

beforeAll(async () => {
  running = await startApi({ ...env, DOCS_URL: DOCS });
  // Keepers of other suites were killed, and their leases would have to run out first.
  await transaction(
    pool,
    null,
    (tx) => tx.query("update probe_states set leased_by = null, leased_until = '-infinity'"),
    {
      role: "tributary_keeper",
    },
  );
});
afterAll(async () => {
  for (const stop of stops.reverse()) await stop();
  for (const name of ["clickhouse", "redis", "kafka"]) await control.signal(name, "SIGCONT");
  await running.close();
  await pool.end();
  rmSync(folder, { recursive: true, force: true });
});

/** A keeper of these stores only, with the code of the real process. */
const keeper = (
  instance: string,
  stores: readonly string[],
  change: Readonly<Record<string, string | undefined>> = {},
) => {
  const log = openLog({ app: "keeper", level: "silent" });
  const metrics = openMetrics({ app: "keeper", version: "0", commit: "0" });
  const { KAFKA_BROKERS, POSTGRES_URL, CLICKHOUSE_URL, REDIS_URL, TRIBUTARY_HOME } = env as Record<string, string>;
  const repairs = openRepairs({
    config: {
      ...{
        INSTANCE_NAME: instance,
        KAFKA_TOPIC_PREFIX: "",
        POSTGRES_URL: POSTGRES_URL!,
        CLICKHOUSE_URL: CLICKHOUSE_URL!,
        REDIS_URL: REDIS_URL!,
      },
      ...{ OBJECT_STORE_URL: pathToFileURL(objects).href, SMTP_URL: running.smtpUrl, RESTART_COMMAND: undefined },
      ...{ DOCS_URL: DOCS, TRIBUTARY_HOME: TRIBUTARY_HOME! },
      ...change,
    },
    apiUrl: change.apiUrl ?? running.url,
    kafka: openKafka({ brokers: KAFKA_BROKERS!, clientId: instance }),
    log,
    metrics,
    timing: TIMING,
  });
  repairs.start();
  const schedules = repairs.schedules
    .filter(({ name }) => stores.some((store) => name.includes(store.replace("_", "-"))))
    .map((schedule) => keepDoing(schedule, { log, metrics }));
  const stop = async (): Promise<void> => {
    await Promise.all(schedules.map((schedule) => schedule.stop()));
    await repairs.close();
  };
  stops.push(stop);
  return { stop: () => stops.splice(stops.indexOf(stop), 1)[0]!(), metrics };
};

interface Shown {
  readonly name: string;
  readonly state: string;
  readonly restarts: number;
  readonly checked_at: string | null;
}
const shown = async (): Promise<readonly Shown[]> => {
  const token = await running.token("admin@demo.tributary.test");
  const answer = await fetch(`${running.url}/api/system/health`, { headers: { authorization: `Bearer ${token}` } });
  return ((await answer.json()) as { probes: readonly Shown[] }).probes;
};
/** The states of each store in the order in which they are seen. */
const following = () => {
  const seen = new Map<string, string[]>();
  return {
    seen,
    look: async (): Promise<void> => {
      for (const { name, state } of await shown()) {
        const states = seen.get(name) ?? [];
        if (states.at(-1) !== state) seen.set(name, [...states, state]);
      }
    },
  };
};
/** On a busy machine a signal takes effect with a delay. */
const hang = async (service: string): Promise<void> => {
  await control.signal(service, "SIGSTOP");
  await until(`${service} is paused`, 10_000, async () =>
    expect((await control.status()).find(({ name }) => name === service)?.state).toBe("paused"),
  );
};
const alertsSince = async (from: number) => (await listAlerts(pool, 200)).filter(({ told_at }) => told_at >= from);
const mailed = (): readonly string[] =>
  running.mails().flatMap((mail) => /^Message-ID:\s+<(inc_\S+)@tributary\.alerts>/im.exec(mail)?.[1] ?? []);
const proven = async (outages: readonly Outage[]) => {
  const services = new Set(outages.map(({ service }) => service));
  const sent = (await alertsSince(began)).filter(({ service }) => services.has(service));
  const mails = mailed().filter((mail) => [...services].some((service) => mail.startsWith(`inc_${service}_`)));
  expect(violationsOfReporting(outages, sent, mails, { intervalMs: TIMING.intervalMs, graceMs: 45_000 })).toEqual([]);
  return sent;
};

test(
  "ClickHouse and Redis that hang are restarted once each, and reported once when they fail and once, " +
    "with the downtime, when they are back",
  async () => {
    const stores = ["analytics_store", "cache_store"];
    const first = keeper("keeper-one", stores);
    await until("both are probed and healthy", 60_000, async () => {
      const probed = (await shown()).filter(({ name }) => stores.includes(name));
      for (const { state, checked_at: at } of probed)
        expect([state, at === null ? null : Date.parse(at) > began]).toEqual(["healthy", true]);
    });
    const states = following();
    await states.look();
    const from = Date.now();
    for (const name of ["clickhouse", "redis"]) await hang(name);

    const health = async () => ((await (await fetch(`${running.url}/api/health`)).json()) as { status: string }).status;
    await until("the platform says that stores are down", 30_000, async () => expect(await health()).toBe("down"));
    await until("both are healthy again", 60_000, async () => {
      await states.look();
      for (const store of stores)
        expect(states.seen.get(store)).toEqual(["healthy", "failing", "restarting", "healthy"]);
    });
    const to = Date.now();
    await until("the platform is well", 30_000, async () => expect(await health()).toMatch(/ok|degraded/));
    await until("every alert is mailed", 30_000, async () =>
      expect((await alertsSince(from)).every(({ mailed_at }) => mailed_at !== null)).toBe(true),
    );
    await first.stop();

    const sent = await proven(stores.map((service) => ({ service, from, to })));
    expect(sent.map(({ service, status, severity }) => `${service} ${status} ${severity}`).sort()).toEqual(
      stores.flatMap((store) => [`${store} down normal`, `${store} recovered normal`]),
    );
    for (const { status, duration } of sent) if (status === "recovered") expect(duration).toMatch(/^(\d+ min )?\d+ s$/);
    expect((await shown()).filter(({ restarts }) => restarts > 0).map(({ name }) => name)).toEqual(stores);
  },
);

test("a log that hangs is restarted once; the alarm is in the mailbox, and status says it meanwhile", async () => {
  const first = keeper("keeper-log", ["event_log"]);
  const known = async () => (await listProbes(pool)).find(({ name }) => name === "event_log")!;
  await until("the log is probed and healthy", 60_000, async () => {
    const { state, checked_at: at } = await known();
    expect([state, at !== null && at > began]).toEqual(["healthy", true]);
  });
  const pid = (await control.status()).find(({ name }) => name === "kafka")?.pid;
  const from = Date.now();
  await hang("kafka");
  const said = (await tributary("status")).stdout;
  expect(said).toMatch(/^kafka .* paused$/m);
  expect(said.trimEnd().split("\n").at(-1)).toMatch(/^not well: .*kafka \(paused\)/);
  const mails = () => running.mails().filter((mail) => /^Message-ID:\s+<inc_event_log_/im.test(mail));
  await until("the alarm is in the mailbox", 60_000, async () => expect(mails()).toHaveLength(1));
  expect(mails()[0]).toMatch(/^Subject: \[Tributary\] event_log is down/m);
  expect(readMail(mails()[0]!).text).toContain(`Then read: ${DOCS}/docs/runbooks/broker-lost.md`);
  await until("the log is healthy again", 120_000, async () => expect((await known()).state).toBe("healthy"));
  const to = Date.now();
  const restarted = (await control.status()).find(({ name }) => name === "kafka")!;
  expect(restarted.state).toBe("running");
  expect(restarted.pid).not.toBe(pid);
  await until("its return is mailed", 30_000, async () => expect(mails()).toHaveLength(2));
  await first.stop();
  const sent = await proven([{ service: "event_log", from, to }]);
  expect(sent.map(({ status, severity }) => `${status} ${severity}`).sort()).toEqual([
    "down normal",
    "recovered normal",
  ]);
  expect((await tributary("status")).stdout).not.toMatch(/kafka \(|event_log \(/);
}, 240_000);

test(
  "object storage that is gone goes down without a restart, is reported by the keeper itself while the " +
    "API is away, and comes back",
  async () => {
    const store = "object_store";
    keeper("keeper-two", [store], { apiUrl: "http://127.0.0.1:1" });
    // A second keeper would send a second mail, but it has no lease and waits.
    keeper("keeper-three", [store]);
    await until("it is probed and healthy", 60_000, async () => {
      const found = (await shown()).find(({ name }) => name === store)!;
      expect([found.state, found.checked_at !== null]).toEqual(["healthy", true]);
    });
    const states = following();
    await states.look();
    const from = Date.now();
    // A file replaces the folder, because root may write into any folder, read-only or not.
    renameSync(objects, `${objects}.away`);
    writeFileSync(objects, "");
    await until("it is down", 60_000, async () => {
      await states.look();
      expect(states.seen.get(store)?.at(-1)).toBe("down");
    });
    rmSync(objects);
    renameSync(`${objects}.away`, objects);
    await until("it is healthy again", 60_000, async () => {
      await states.look();
      expect(states.seen.get(store)).toEqual(["healthy", "failing", "down", "healthy"]);
    });
    const to = Date.now();
    await until("every alert is mailed", 30_000, async () =>
      expect((await alertsSince(from)).every(({ mailed_at }) => mailed_at !== null)).toBe(true),
    );
    const sent = await proven([{ service: store, from, to }]);
    const down = running.mails().find((mail) => /^Message-ID:\s+<inc_object_store_\S+\.down\./im.test(mail));
    expect(readMail(down!).text).toContain(`Then read: ${DOCS}/docs/archive.md`);
    expect(sent.map(({ status, severity }) => `${status} ${severity}`).sort()).toEqual([
      "down critical",
      "recovered normal",
    ]);
  },
);

test(
  "a keeper that dies in a restart has used it up: its successor looks again, tells the end, and " + "restarts nothing",
  async () => {
    const store = "cache_store";
    const since = Date.now() - 60_000;
    const id = `inc_${store}_${since}`;
    // The state after a keeper was killed between saving and restarting.
    await transaction(
      pool,
      null,
      (tx) =>
        tx.query(sql`
        update probe_states set state = 'restarting', failures = 3, incident_id = ${id},
          failing_since = ${new Date(since)}, leased_by = null, leased_until = '-infinity' where name = ${store}`),
      { role: "tributary_keeper" },
    );
    const pid = (await control.status()).find(({ name }) => name === "redis")?.pid;
    const successor = keeper("keeper-four", [store]);
    await until("the incident is over", 60_000, async () => {
      const sent = (await listAlerts(pool, 200)).filter(({ incident_id }) => incident_id === id);
      expect(sent.map(({ status, mailed_at }) => [status, mailed_at !== null])).toEqual([["recovered", true]]);
    });
    await successor.stop();
    expect((await control.status()).find(({ name }) => name === "redis")?.pid).toBe(pid);
  },
);
