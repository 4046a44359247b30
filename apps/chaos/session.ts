// One sender and one judge over many cycles: load, faults, heal, quiescence, every law.
import { join } from "node:path";
import { openPool } from "../../infra/postgres/sql.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { until } from "../../infra/runtime/timing/until.ts";
import { createToken, revokeToken } from "../../modules/access/tokens.ts";
import { type Fault, type Proof, pause, type Scene } from "./faults/fault.ts";
import { type Judgement, judge } from "./laws/all.ts";
import type { Finding, StoredEvent } from "./laws/law.ts";
import { type Generator, openGenerator, type Tenant, tenantsOf } from "./load/generator.ts";
import { openJournal } from "./load/journal.ts";
import { type Load, startLoad } from "./load/load.ts";
import { type LogReader, openLogReader } from "./log-picture.ts";
import type { Plan } from "./schedule.ts";
import type { Target } from "./target.ts";
import { readGroups, type Watcher, watch } from "./watcher.ts";

export interface FaultRun extends Proof {
  readonly name: string;
  readonly id: string;
  readonly seconds: number;
}
export interface Cycle {
  readonly n: number;
  readonly faults: readonly FaultRun[];
  readonly judgements: readonly Judgement[];
  readonly broken: readonly Judgement[];
  readonly sent: number;
  readonly answers: Readonly<Record<string, number>>;
  readonly quietMs: number;
  readonly seconds: number;
}
export interface Session {
  readonly seed: number;
  readonly run: (n: number, plan: Plan) => Promise<Cycle>;
  readonly close: () => Promise<void>;
}

/** Each token may send 100 requests a minute. */
const TOKENS_EACH = 5;
const BATCH = 15;
const PAUSE_MS = 100;
/**
 * L1 allows 60 s; beyond that the wait goes on, so that the other laws can be asked all the same.
 */
const LONGEST_QUIET_MS = 180_000;
const WELL_MS = 120_000;
/** What takes longer to catch up is worth a line. */
const SLOW_SECONDS = 3;

interface Tokens {
  readonly byTenant: ReadonlyMap<number, readonly string[]>;
  /** They open doors that are not needed any more. */
  readonly revoke: () => Promise<void>;
}
const openTokens = async (target: Target, tenants: readonly Tenant[]): Promise<Tokens> => {
  const tokens = new Map<number, readonly string[]>();
  const ids: number[] = [];
  const app = openPool(target.env.POSTGRES_URL!, { name: "tributary-chaos-tokens", max: 1 });
  try {
    for (const { id } of tenants) {
      const made: string[] = [];
      for (let n = 0; n < TOKENS_EACH; n += 1) {
        const { token, token_id: tokenId } = await createToken(app, {
          kind: "ingest",
          label: `chaos ${n}`,
          client_id: id,
        });
        made.push(token);
        ids.push(tokenId);
      }
      tokens.set(id, made);
    }
  } finally {
    await app.end();
  }
  // Known everywhere within a second; sooner they would be refused.
  const newest = [...tokens.values()].at(-1)!.at(-1)!;
  await until("the edge knows the newest token", 15_000, async () => {
    const headers = { authorization: `Bearer ${newest}`, "content-type": "application/json" };
    const { status } = await fetch(`${urlsOf(target)[0]}/ingest/batch`, { method: "POST", headers, body: "{}" });
    if (status !== 400) throw new Error(`the edge answers ${status}`);
  });
  return {
    byTenant: tokens,
    revoke: async () => {
      for (const id of ids) await revokeToken(target.pool, id);
    },
  };
};

/** The edge, and the one that stands by when there is one. */
const urlsOf = (target: Target): readonly string[] => {
  const { apps } = target.run();
  return ["ingest", "ingest-standby"].flatMap((name) => apps[name]?.url ?? []);
};

/**
 * Until every group has read what lies in its topic now, in the order that data flows, and rollups
 * show what was stored.
 */
const quietOf = async (target: Target, deadlineMs: number, tell: (text: string) => void): Promise<void> => {
  // What an edge took while the log was away reaches it late.
  for (const url of urlsOf(target))
    await until("the edges have drained what they kept", deadlineMs, async () => {
      const { failover } = (await (await fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) })).json()) as {
        failover?: { readonly spooled_events: number; readonly last_resort_events: number };
      };
      const left = (failover?.spooled_events ?? 0) + (failover?.last_resort_events ?? 0);
      if (left > 0) throw new Error(`${left} events wait`);
    });
  for (const { name, topic } of readGroups) {
    const began = performance.now();
    await until(`${name} has read ${topic}`, deadlineMs, () =>
      target.withAdmin(async (admin) => {
        const marks = await admin.watermarks(topic);
        // Only what lay there at the call counts; later marks of a running installation are the
        // next reader's.
        await until(`${name} has read ${topic}`, 5_000, async () => {
          const committed = await admin.committed(name, topic);
          const left = marks.reduce(
            (sum, { partition, low, high }) => sum + Math.max(0, high - (committed.get(partition) ?? low)),
            0,
          );
          if (left > 0) throw new Error(`it lags by ${left}`);
        });
      }),
    );
    const seconds = (performance.now() - began) / 1_000;
    if (seconds > SLOW_SECONDS) tell(`${name} had read ${topic} after ${seconds.toFixed(1)} s`);
  }
  const stored = new Date().toISOString();
  await until("rollups show what was stored", deadlineMs, async () => {
    const [left] = await target.rows<{ n: number }>(
      `select count(*)::int as n from rollup_marks where marked_at < '${stored}'`,
    );
    if (left!.n > 0) throw new Error(`${left!.n} minutes wait`);
  });
};

/**
 * The last fault is healed when its servers answer again and nothing stands in the way; what the
 * product needs from then on is its own (L1).
 */
const heal = async (target: Target): Promise<void> => {
  for (const proxy of Object.values(target.proxies)) proxy.weather({});
  for (const name of Object.keys(target.run().services)) await target.well(name, WELL_MS);
};
const recovered = async (target: Target): Promise<void> => {
  for (const name of Object.keys(target.run().apps)) await target.well(name, WELL_MS);
};

const storedOf = (target: Target, prefix: string): Promise<readonly StoredEvent[]> =>
  target.select<StoredEvent>(`select sender_event_id as id, toString(any(event_id)) as event_id, client_id,
    toUInt32(count()) as rows, any(t) as t,
    any(order_id) as order_id, any(credit_status) as credit_status, any(partner_id) as partner_id,
    any(fraud_band) as fraud_band,
    toString(any(merged_into)) as merged_into, max(version) as version, toString(any(value_minor)) as value_minor
    from events final where startsWith(sender_event_id, '${prefix}-') group by sender_event_id, client_id`);

interface Parts {
  readonly target: Target;
  readonly tenants: readonly Tenant[];
  readonly tokens: ReadonlyMap<number, readonly string[]>;
  readonly generator: Generator;
  readonly reader: LogReader;
  readonly random: () => number;
  readonly name: string;
  readonly isOurs: boolean;
  readonly tell: (text: string) => void;
}

const runFault = async (fault: Fault, scene: Scene): Promise<FaultRun> => {
  const began = performance.now();
  scene.tell(`${fault.id} ${fault.name} ...`);
  const proof = await fault
    .run(scene)
    .catch((error: Error): Proof => ({ took: false, what: `could not be made: ${error.message}` }));
  const seconds = (performance.now() - began) / 1_000;
  scene.tell(`${fault.id} ${fault.name}: ${proof.took ? proof.what : `VOID, ${proof.what}`} (${seconds.toFixed(1)} s)`);
  return { name: fault.name, id: fault.id, seconds, ...proof };
};

/** Starts the sender's side. `tell` hears what is broken and healed as it happens. */
export const openSession = async (
  target: Target,
  seed: number,
  isOurs: boolean,
  tell: (text: string) => void,
): Promise<Session> => {
  const name = `x${seed}-${Date.now().toString(36)}`;
  const demo = target.run().demo as unknown as Parameters<typeof tenantsOf>[0];
  const tenants = tenantsOf(demo);
  const random = randomFrom(seed);
  const generator = openGenerator(random, keyringOf(target.env.TRIBUTARY_SECRET!).newest);
  const journal = openJournal(join(target.folder, `${name}.journal`));
  const reader = await openLogReader(target);
  const tokens = await openTokens(target, tenants);
  const parts: Parts = { target, tenants, tokens: tokens.byTenant, generator, reader, random, name, isOurs, tell };
  return {
    seed,
    run: (n, plan) => runCycle(n, plan, parts, journal),
    close: async () => {
      journal.close();
      await tokens.revoke();
    },
  };
};

const runCycle = async (
  n: number,
  plan: Plan,
  parts: Parts,
  journal: ReturnType<typeof openJournal>,
): Promise<Cycle> => {
  const { target, tenants, tokens, generator, random, name } = parts;
  generator.begin(`${name}-c${n}`);
  const watcher = watch(target);
  const load = startLoad({
    urls: () => urlsOf(target),
    tokens,
    tenants,
    generator,
    journal,
    random,
    batch: BATCH,
    pauseMs: PAUSE_MS,
  });
  try {
    return await cycleUnder(load, watcher, n, plan, parts, journal);
  } finally {
    // A stack that does not heal ends the run with an error, and what goes on here would keep the
    // process for ever.
    await load.stop().catch(() => undefined);
    await watcher.stop();
  }
};

const cycleUnder = async (
  load: Load,
  watcher: Watcher,
  n: number,
  plan: Plan,
  parts: Parts,
  journal: ReturnType<typeof openJournal>,
): Promise<Cycle> => {
  const { target, generator, reader, name, isOurs, tell } = parts;
  const began = performance.now();
  const cycle = `${name}-c${n}`;
  const findings = new Map<string, Finding[]>();
  const scene: Scene = {
    target,
    random: plan.random,
    load,
    generator,
    find: (law, finding) => void findings.set(law, [...(findings.get(law) ?? []), finding]),
    forgive: watcher.forgive,
    quiet: () => quietOf(target, LONGEST_QUIET_MS, tell),
    tell,
  };
  await pause(plan.warmUpMs);
  const together = await runTogether(plan, scene);
  const quietMs = await untilQuiet(parts, load);
  const alone = await runAlone(plan, scene);

  const watched = await watcher.stop();
  const log = await reader.update();
  const events = await storedOf(target, cycle);
  const seen = { log, readOn: reader.update, watched, findings, quietMs, events };
  const judgements = await judge({ target, generator, journal, session: name, cycle, isOurs, ...seen });
  return {
    n,
    faults: [...together, ...alone],
    judgements,
    broken: judgements.filter(({ verdict }) => verdict === "broken"),
    sent: load.acknowledged(),
    answers: load.answers(),
    quietMs,
    seconds: (performance.now() - began) / 1_000,
  };
};

/** Each begins while the ones before it may still go on. */
const runTogether = async ({ faults, gapsMs }: Plan, scene: Scene): Promise<readonly FaultRun[]> => {
  const running: Promise<FaultRun>[] = [];
  for (const [at, fault] of faults.entries()) {
    if (fault.isAlone === true) continue;
    running.push(runFault(fault, scene));
    await pause(gapsMs[at]!);
  }
  return Promise.all(running);
};

const runAlone = async ({ faults }: Plan, scene: Scene): Promise<readonly FaultRun[]> => {
  const runs: FaultRun[] = [];
  for (const fault of faults) if (fault.isAlone === true) runs.push(await runFault(fault, scene));
  return runs;
};

/**
 * Heals, waits until the product has recovered and read everything; milliseconds since the healing.
 */
const untilQuiet = async ({ target, tell }: Parts, load: Load): Promise<number> => {
  await heal(target);
  const healedAt = performance.now();
  tell("healed");
  await recovered(target);
  tell("every process is well");
  const before = load.acknowledged();
  await until("an event is acknowledged again", 60_000, () => {
    if (load.acknowledged() === before) throw new Error(`answers so far: ${JSON.stringify(load.answers())}`);
  });
  await load.stop();
  const problem = await quietOf(target, LONGEST_QUIET_MS, tell).then(
    () => null,
    (error: Error) => error.message,
  );
  const quietMs = performance.now() - healedAt;
  if (problem !== null) tell(`not quiet after ${Math.round(quietMs / 1_000)} s: ${problem}`);
  return quietMs;
};
