// `npm run test:guarantees` and `npm run soak`: break a separate stack by seed, and check every law
// after each cycle. `fuzz`, `running` and `cluster` are commands of their own.
import { execFileSync, spawn } from "node:child_process";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../../infra/embedded/home.ts";
import { UsageError } from "../../infra/runtime/command-errors.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { hurtCluster } from "./cluster.ts";
import { fuzz } from "./fuzz/fuzz.ts";
import { hurtRunning } from "./hurt-running.ts";
import { type RunSettings, run } from "./run.ts";
import { faults, obstacleOf } from "./schedule.ts";
import { ownMountSpace } from "./stage/mounts.ts";
import { onStage } from "./stage/stage.ts";
import { summaryText } from "./verdicts.ts";

const usage = `npm run test:guarantees -- [--seed N] [--cycles M] [--from n] [--faults a,b] [--home folder]
  [--results folder] [--go-on] [--verbose]
npm run soak -- [--hours H] [the options above]

Starts the whole product on servers of its own, sends it events, and breaks processes, networks
and disks meanwhile. After each cycle it heals them, waits until everything is read, and checks
every law of docs/guarantees.md. A soak repeats cycles for hours. Exit code 0 when no law was
broken, 1 when one was, 2 for a wrong call.

  --seed N          draws the faults and the events; printed at the start, by default from the clock
  --cycles M        cycles in which a fault took effect; 10 by default
  --from n          begins with cycle n of the seed; 1 by default
  --faults a,b      only these faults, by id or by the beginning of the name; all of them by default
  --hours H         cycles for H hours, in place of --cycles; 1 by default in a soak
  --go-on           goes on after a broken law, as a soak always does
  --home folder     where the stack lives; .tributary/guarantees/home by default
  --results folder  where results and the logs of a broken law go; .tributary/guarantees by default
  --verbose         says also what the stack and each fault do

Examples:
  $ npm run test:guarantees -- --cycles 3                       three cycles, a first look
  $ npm run test:guarantees -- --seed 42 --cycles 20            twenty cycles that can be repeated
  $ npm run test:guarantees -- --seed 42 --from 7 --cycles 1    cycle 7 of them alone
  $ npm run test:guarantees -- --faults "F-06,full disk"      only faults of Redis and of disks
  $ npm run soak -- --hours 8                                   over night

Faults:
${faults.map(({ id, name }) => `  ${id.padEnd(5)} ${name}`).join("\n")}`;

const commitOf = (root: string): string => {
  try {
    return execFileSync("git", ["rev-parse", "HEAD"], {
      cwd: root,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    }).trim();
  } catch {
    return "unknown";
  }
};
const numberOf = (text: string | undefined, otherwise: number): number => {
  const number = Number(text ?? otherwise);
  if (!Number.isFinite(number) || number < 0) throw new Error(`${text} is no number`);
  return number;
};

/** Runs the same command in a separate mount namespace, where disks can be small. */
const again = ([program, ...words]: readonly string[]): Promise<number> =>
  new Promise((resolve, reject) => {
    const child = spawn(program!, [...words, process.execPath, ...process.argv.slice(1), "--mounted"], {
      stdio: "inherit",
    });
    const pass = (signal: NodeJS.Signals) => child.kill(signal);
    process.on("SIGTERM", pass);
    // The terminal sends Ctrl-C to the child itself.
    process.on("SIGINT", () => undefined);
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;
const options = {
  ...{ seed: text, cycles: text, from: text, faults: text, home: text, results: text, hours: text },
  ...{ soak: flag, "go-on": flag, verbose: flag, help: flag, mounted: flag },
} as const;
type Options = ReturnType<typeof parseArgs<{ options: typeof options }>>["values"];

const say = (line: string) => console.log(`${new Date().toISOString().slice(11, 19)} ${line}`);

/**
 * A soak runs for hours, one by default, and goes on after a violation, so that all are counted.
 */
const lengthOf = (values: Options): Pick<RunSettings, "cycles" | "until" | "goesOnAfterViolation"> => {
  if (values.soak !== true && values.hours === undefined)
    return { cycles: numberOf(values.cycles, 10), goesOnAfterViolation: values["go-on"] === true };
  const until = Date.now() + numberOf(values.hours, 1) * 3_600_000;
  return { cycles: Number.POSITIVE_INFINITY, until, goesOnAfterViolation: true };
};

/** Runs the suite on a new stage; returns the exit code. */
const runSuite = async (values: Options): Promise<number> => {
  const commit = commitOf(repositoryRoot());
  const seed = numberOf(values.seed, Date.now() % 1_000_000);
  const from = numberOf(values.from, 1);
  const results = resolve(values.results ?? join(repositoryRoot(), ".tributary", "guarantees"));
  const detail = values.verbose === true ? (line: string) => say(`  ${line}`) : () => undefined;
  const available = { proxies: true, folders: values.mounted === true, isOurs: true };
  say(`seed ${seed}, commit ${commit}, results in ${results}`);
  for (const fault of faults) {
    const obstacle = obstacleOf(fault, available);
    if (obstacle !== null) say(`not proven here: ${fault.id} ${fault.name}: ${obstacle}`);
  }
  // Read before anything starts, so that a mistyped option costs nothing.
  const length = lengthOf(values);
  const settings = { random: randomFrom(seed), tell: detail, isMounted: available.folders };
  return onStage(resolve(values.home ?? join(results, "home")), settings, async (target) => {
    const only = values.faults?.split(",") ?? [];
    const summary = await run(target, {
      ...{ seed, from, only, available, commit, results, detail, tell: say },
      ...length,
    });
    console.log(`\n${summaryText(summary)}`);
    return summary.violations === 0 ? 0 : 1;
  });
};

const start = async (): Promise<number> => {
  const { values } = parseArgs({ options });
  if (values.help === true) {
    console.log(usage);
    return 0;
  }
  const space = values.mounted === true ? null : ownMountSpace();
  return space === null ? runSuite(values) : again(space);
};

// As in apps/cli/main.ts: Node would wait for a write that a killed server never took.
process.once("beforeExit", () => process.exit());
const [verb, ...args] = process.argv.slice(2);
const verbs: Readonly<Record<string, typeof fuzz>> = { running: hurtRunning, fuzz, cluster: hurtCluster };
const named = verbs[verb ?? ""];
process.exitCode = await (named === undefined ? start() : named(args)).catch((error: Error) => {
  console.error(error.message);
  return named !== undefined && !(error instanceof UsageError) ? 1 : 2;
});
