// `npm run test:guarantees` and `npm run soak`: a stack of its own, hurt by seed, judged by every
// law after every cycle. `fuzz`, `running` and `cluster` are commands of their own.
import { execFileSync, spawn } from "node:child_process";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../../infra/embedded/home.ts";
import { UsageError } from "../../infra/runtime/command-errors.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { hurtCluster } from "./cluster.ts";
import { fuzz } from "./fuzz/fuzz.ts";
import { hurtRunning } from "./hurt-running.ts";
import { run } from "./run.ts";
import { faults, obstacleOf } from "./schedule.ts";
import { ownMountSpace } from "./stage/mounts.ts";
import { openStage } from "./stage/stage.ts";
import { summaryText } from "./verdicts.ts";

const usage = `npm run test:guarantees -- [--seed N] [--cycles M] [--from n] [--faults a,b]
  [--home folder] [--results folder] [--go-on] [--verbose]
npm run soak -- [--hours H] [--seed N]
The same seed draws the same faults; --from 7 --cycles 1 repeats cycle 7 alone. Faults:
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

/** The same command in a mount space of its own, in which disks can be small. */
const again = ([program, ...words]: readonly string[]): Promise<number> =>
  new Promise((resolve, reject) => {
    const child = spawn(program!, [...words, process.execPath, ...process.argv.slice(1), "--mounted"], {
      stdio: "inherit",
    });
    const pass = (signal: NodeJS.Signals) => child.kill(signal);
    process.on("SIGTERM", pass);
    // A Ctrl-C reaches it from the terminal.
    process.on("SIGINT", () => undefined);
    child.once("error", reject);
    child.once("exit", (code) => resolve(code ?? 1));
  });

const start = async (): Promise<number> => {
  const { values } = parseArgs({
    options: {
      ...Object.fromEntries(
        ["seed", "cycles", "from", "faults", "home", "results", "hours"].map((name) => [
          name,
          { type: "string" as const },
        ]),
      ),
      soak: { type: "boolean" },
      "go-on": { type: "boolean" },
      verbose: { type: "boolean" },
      help: { type: "boolean" },
      mounted: { type: "boolean" },
    },
  });
  const given = values as Readonly<Record<string, string | undefined>>;
  if (values.help === true) {
    console.log(usage);
    return 0;
  }
  const space = values.mounted === true ? null : ownMountSpace();
  if (space !== null) return again(space);
  const root = repositoryRoot();
  const seed = numberOf(given.seed, Date.now() % 1_000_000);
  // A soak runs for hours, one by default, and goes on after a violation; all are counted.
  const hours = values.soak === true || given.hours !== undefined ? numberOf(given.hours, 1) : undefined;
  const results = resolve(given.results ?? join(root, ".tributary", "guarantees"));
  const say = (text: string) => console.log(`${new Date().toISOString().slice(11, 19)} ${text}`);
  const detail = values.verbose === true ? (text: string) => say(`  ${text}`) : () => undefined;
  const available = { proxies: true, folders: values.mounted === true, isOurs: true };
  say(`seed ${seed}, commit ${commitOf(root)}, results in ${results}`);
  for (const fault of faults) {
    const obstacle = obstacleOf(fault, available);
    if (obstacle !== null) say(`not proven here: ${fault.id} ${fault.name}: ${obstacle}`);
  }
  const stage = await openStage(resolve(given.home ?? join(results, "home")), {
    random: randomFrom(seed),
    tell: detail,
    isMounted: available.folders,
  });
  const leave = () => void stage.close().then(() => process.exit(130));
  process.once("SIGINT", leave);
  process.once("SIGTERM", leave);
  try {
    const summary = await run(stage.target, {
      seed,
      cycles: hours === undefined ? numberOf(given.cycles, 10) : Number.POSITIVE_INFINITY,
      ...(hours === undefined ? {} : { until: Date.now() + hours * 3_600_000 }),
      from: numberOf(given.from, 1),
      only: given.faults?.split(",") ?? [],
      available,
      commit: commitOf(root),
      results,
      tell: say,
      detail,
      goesOnAfterViolation: values["go-on"] === true || hours !== undefined,
    });
    console.log(`\n${summaryText(summary)}`);
    return summary.violations === 0 ? 0 : 1;
  } finally {
    process.off("SIGINT", leave);
    process.off("SIGTERM", leave);
    await stage.close();
  }
};

const [verb, ...args] = process.argv.slice(2);
const verbs: Readonly<Record<string, typeof fuzz>> = { running: hurtRunning, fuzz, cluster: hurtCluster };
const named = verbs[verb ?? ""];
process.exitCode = await (named === undefined ? start() : named(args)).catch((error: Error) => {
  console.error(error.message);
  return named !== undefined && !(error instanceof UsageError) ? 1 : 2;
});
