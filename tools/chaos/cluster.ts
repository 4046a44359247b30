// `npm run test:cluster`: three brokers, two edges, two workers a group under load, while brokers
// and members go and come; every law is asked after each cycle.
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
import { openStage } from "./stage/stage.ts";
import type { Target } from "./target.ts";
import { summaryText } from "./verdicts.ts";

const usage = `npm run test:cluster -- [--seed N] [--only n,m] [--home folder] [--results folder] [--verbose]
Three Kafka brokers (3 copies, 2 of them acknowledge), two edges, two workers a group. Cycles:`;

/** In each at most one broker is away: without two of three nothing is promised. */
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

/** Proves the setting: every group is shared by its two workers. */
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

/** Its options are those of `npm run test:cluster`. Answers its exit code. */
export const hurtCluster = async (args: readonly string[]): Promise<number> => {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const options = { seed: text, only: text, home: text, results: text, verbose: flag, help: flag };
  const { values } = parseArgs({ args: [...args], options });
  const listed = cycles.map((names, index) => `${index + 1}  ${names.join(", ")}`);
  if (values.help === true) {
    print([usage, ...listed].join("\n"));
    return 0;
  }
  const seed = Number(values.seed ?? 1);
  if (!Number.isInteger(seed) || seed < 0) throw new UsageError(`--seed: ${values.seed} is not a whole number`);
  const chosen = values.only?.split(",").map((n) => cycles[Number(n) - 1]) ?? cycles;
  if (chosen.some((names) => names === undefined))
    throw new UsageError(`--only: there are the cycles\n${listed.join("\n")}`);
  const plan = (_n: number, proven: number): Plan => ({ ...planFor(chosen[proven]!, seed + proven), load });

  const results = resolve(values.results ?? join(repositoryRoot(), ".tributary", "cluster"));
  const say = (line: string) => tell(`${new Date().toISOString().slice(11, 19)} ${line}`);
  say(`seed ${seed}, commit ${commitOf()}, ${chosen.length} cycles, results in ${results}`);
  const random = randomFrom(seed);
  const detail = values.verbose === true ? say : () => undefined;
  const stage = await openStage(resolve(values.home ?? join(results, "home")), {
    random,
    tell: detail,
    isCluster: true,
  });
  const leave = () => void stage.close().then(() => process.exit(130));
  process.once("SIGINT", leave);
  process.once("SIGTERM", leave);
  try {
    say(`three brokers, two edges; ${await twoMembersEach(stage.target)} groups of two workers each`);
    const summary = await run(stage.target, {
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
  } finally {
    process.off("SIGINT", leave);
    process.off("SIGTERM", leave);
    await stage.close();
  }
};
