// One sender and one judge over many cycles: load, faults, heal, quiescence, and every law.
import { join } from "node:path";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { type Fault, type Proof, pause, type Scene } from "./faults/fault.ts";
import { calm, heal, LONGEST_QUIET_MS, quietOf, recovered } from "./healing.ts";
import { type Judgement, judge } from "./laws/all.ts";
import type { Finding, StoredEvent } from "./laws/law.ts";
import { type Generator, openGenerator, type Tenant } from "./load/generator.ts";
import { openJournal } from "./load/journal.ts";
import { type Load, type LoadShape, startLoad } from "./load/load.ts";
import { openSenders, type Senders } from "./load/senders.ts";
import { type LogReader, openLogReader } from "./log-picture.ts";
import { discardOwnLetters } from "./own-letters.ts";
import type { Plan } from "./schedule.ts";
import { type Target, urlsOf } from "./target.ts";
import { type Watcher, watch } from "./watcher.ts";

interface FaultRun extends Proof {
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

const usualLoad: LoadShape = { batch: 15, pauseMs: 100, spreads: false };
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
  /** Faults whose damage is not healed yet. */
  readonly underWay: Set<Promise<unknown>>;
  /** No further fault begins once it fires. */
  readonly leaving: AbortSignal;
}

const runFault = async (fault: Fault, scene: Scene, underWay: Set<Promise<unknown>>): Promise<FaultRun> => {
  const began = performance.now();
  scene.tell(`${fault.id} ${fault.name} ...`);
  const running = fault
    .run(scene)
    .catch((error: Error): Proof => ({ took: false, what: `could not be made: ${error.message}` }));
  underWay.add(running);
  const proof = await running.finally(() => underWay.delete(running));
  const seconds = (performance.now() - began) / 1_000;
  scene.tell(`${fault.id} ${fault.name}: ${proof.took ? proof.what : `VOID, ${proof.what}`} (${seconds.toFixed(1)} s)`);
  return { name: fault.name, id: fault.id, seconds, ...proof };
};

/**
 * Archives the clients of the session on a stack that others use, and discards their dead letters.
 * It waits until nothing is under way, because later letters would stay.
 */
const tidyUp = async (target: Target, senders: Senders, tell: (text: string) => void): Promise<void> => {
  const { tenants } = senders;
  const isWhole = await calm(target, tell);
  await senders.leave();
  const discarded = await discardOwnLetters(target, new Set(tenants.map(({ id }) => id)));
  tell(`archived ${tenants.length} clients, discarded ${discarded} dead letters`);
  if (!isWhole) tell("what fails later is not among them: npx tributary dlq list");
};

/** Opens the senders. `tell` gets each fault and heal as it happens. */
export const openSession = async (
  target: Target,
  seed: number,
  isOurs: boolean,
  tell: (text: string) => void,
): Promise<Session> => {
  const name = `x${seed}-${Date.now().toString(36)}`;
  const random = randomFrom(seed);
  const generator = openGenerator(random, keyringOf(target.env.TRIBUTARY_SECRET!).newest);
  const journal = openJournal(join(target.folder, `${name}.journal`));
  const reader = await openLogReader(target);
  const senders = await openSenders(target, name);
  const { tenants, tokens } = senders;
  const underWay = new Set<Promise<unknown>>();
  const leaving = new AbortController();
  const { signal } = leaving;
  const parts: Parts = {
    target,
    tenants,
    tokens,
    generator,
    reader,
    random,
    name,
    isOurs,
    tell,
    underWay,
    leaving: signal,
  };
  let stopLoad = async (): Promise<void> => undefined;
  return {
    seed,
    run: (n, plan) =>
      runCycle(n, plan, parts, journal, (stop) => {
        stopLoad = stop;
      }),
    close: async () => {
      leaving.abort();
      // A fault under way heals its damage at its end.
      await Promise.allSettled(underWay);
      await stopLoad();
      journal.close();
      if (isOurs) await senders.close();
      else await tidyUp(target, senders, tell);
    },
  };
};

const runCycle = async (
  n: number,
  plan: Plan,
  parts: Parts,
  journal: ReturnType<typeof openJournal>,
  onLoad: (stop: () => Promise<void>) => void,
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
    ...(plan.load ?? usualLoad),
  });
  // If the stack does not heal, the run ends with an error, and load and watcher must not keep the
  // process alive.
  const stop = async (): Promise<void> => {
    await load.stop().catch(() => undefined);
    await watcher.stop();
  };
  onLoad(stop);
  try {
    return await cycleUnder(load, watcher, n, plan, parts, journal);
  } finally {
    await stop();
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
  const together = await runTogether(plan, scene, parts);
  const quietMs = await untilQuiet(parts, load);
  const alone = await runAlone(plan, scene, parts);

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

/** Each fault begins while earlier ones may still go on. */
const runTogether = async (
  { faults, gapsMs }: Plan,
  scene: Scene,
  { underWay, leaving }: Parts,
): Promise<readonly FaultRun[]> => {
  const running: Promise<FaultRun>[] = [];
  for (const [at, fault] of faults.entries()) {
    if (fault.isAlone === true || leaving.aborted) continue;
    running.push(runFault(fault, scene, underWay));
    await pause(gapsMs[at]!);
  }
  return Promise.all(running);
};

const runAlone = async ({ faults }: Plan, scene: Scene, { underWay, leaving }: Parts): Promise<readonly FaultRun[]> => {
  const runs: FaultRun[] = [];
  for (const fault of faults)
    if (fault.isAlone === true && !leaving.aborted) runs.push(await runFault(fault, scene, underWay));
  return runs;
};

/**
 * Heals, then waits until the product has recovered and read everything. Returns the milliseconds
 * since the heal.
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
