// `npm run test:cluster`: three brokers, two edges and two workers a group under load, while
// brokers and workers fail. Every law is checked after each cycle.
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../../infra/embedded/home.ts";
import { UsageError } from "../../infra/runtime/command-errors.ts";
import { print, tell } from "../../infra/runtime/output.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { commitOf } from "../../infra/runtime/version.ts";
import { readGroups } from "./hosting.ts";
import { run } from "./run.ts";
import { type Plan, planFor } from "./schedule.ts";
import { onStage } from "./stage/stage.ts";
import type { Target } from "./target.ts";
import { summaryText } from "./verdicts.ts";

const usage = `npm run test:cluster -- [--seed N] [--only n,m] [--home folder] [--results folder] [--verbose]

Starts three Kafka brokers (3 copies, of which 2 acknowledge), two edges and two workers a group,
sends them events, and makes brokers and workers fail. After each cycle every law is checked. Exit
code 0 when no law was broken and every fault took effect, else 1; 2 for a wrong call.

  --seed N          1 by default; the same seed draws the same moments and events
  --only n,m        only these cycles of the list below
  --home folder     where the stack lives; .tributary/cluster/home by default
  --results folder  where results and the logs of a broken law go; .tributary/cluster by default
  --verbose         says also what the stack does

Examples:
  $ npm run test:cluster                    every cycle
  $ npm run test:cluster -- --only 1,6      a broker killed, and a broker cut off

Cycles:`;

/** At most one broker is away in a cycle, because nothing is promised without two of three. */
const cycles: readonly (readonly string[])[] = [
  ["kill a broker"],
  ["stop a broker in order"],
  ["pause a broker beyond its session"],
  ["kill a broker", "kill worker-chain-2", "kill worker-money", "kill ingest-standby"],
  ["kill each broker in turn"],
  ["cut a broker off"],
];
const load = { batch: 100, pauseMs: 50, spreads: true };
const JOINED_MS = 120_000;

/** Proves the setting: two workers share every group. */
const twoMembersEach = (target: Target): Promise<number> =>
  until("every group has two members", JOINED_MS, () =>
    target.withAdmin(async (admin) => {
      const groups = await admin.describeGroups(readGroups.map(({ name }) => name));
      const other = groups.filter(({ members }) => members.length !== 2);
      if (other.length > 0)
        throw new Error(other.map(({ group, members }) => `${group}: ${members.length}`).join(", "));
      return groups.length;
    }),
  );

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const options = { seed: text, only: text, home: text, results: text, verbose: flag, help: flag } as const;

const listed = cycles.map((names, index) => `${index + 1}  ${names.join(", ")}`);

const seedOf = (given: string | undefined): number => {
  const seed = Number(given ?? 1);
  if (!Number.isInteger(seed) || seed < 0) throw new UsageError(`--seed: ${given} is not a whole number`);
  return seed;
};

/** The cycles that `--only` names by number; all of them without it. */
const cyclesOf = (only: string | undefined): typeof cycles => {
  const chosen = only?.split(",").map((n) => cycles[Number(n) - 1]) ?? cycles;
  if (chosen.some((names) => names === undefined))
    throw new UsageError(`--only: there are the cycles\n${listed.join("\n")}`);
  return chosen as typeof cycles;
};

/** Takes the options of `npm run test:cluster`; returns the exit code. */
export const hurtCluster = async (args: readonly string[]): Promise<number> => {
  const { values } = parseArgs({ args: [...args], options });
  if (values.help === true) {
    print([usage, ...listed].join("\n"));
    return 0;
  }
  const seed = seedOf(values.seed);
  const chosen = cyclesOf(values.only);
  const plan = (_n: number, proven: number): Plan => ({ ...planFor(chosen[proven]!, seed + proven), load });

  const results = resolve(values.results ?? join(repositoryRoot(), ".tributary", "cluster"));
  const say = (line: string) => tell(`${new Date().toISOString().slice(11, 19)} ${line}`);
  say(`seed ${seed}, commit ${commitOf()}, ${chosen.length} cycles, results in ${results}`);
  const detail = values.verbose === true ? say : () => undefined;
  const settings = { random: randomFrom(seed), tell: detail, isCluster: true };
  return onStage(resolve(values.home ?? join(results, "home")), settings, async (target) => {
    say(`three brokers, two edges; ${await twoMembersEach(target)} groups of two workers each`);
    const summary = await run(target, {
      seed,
      cycles: chosen.length,
      plan,
      again: () => `npm run test:cluster -- --seed ${seed}`,
      only: [],
      available: { proxies: true, folders: false, isOurs: true, isCluster: true },
      commit: commitOf(),
      results,
      tell: say,
      detail: (line) => say(`  ${line}`),
      goesOnAfterViolation: true,
    });
    print(`\n${summaryText(summary)}`);
    return summary.violations === 0 && summary.faults.every(({ proven }) => proven > 0) ? 0 : 1;
  });
};
