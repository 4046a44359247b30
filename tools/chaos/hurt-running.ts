// `tributary chaos`: breaks the stack that runs in a folder, or a new stack if none runs there, and
// ends with a verdict for each law.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { UsageError } from "../../infra/runtime/command-errors.ts";
import { print, printJson, tell } from "../../infra/runtime/output.ts";
import { randomFrom } from "../../infra/runtime/random.ts";
import { commitOf } from "../../infra/runtime/version.ts";
import { run } from "./run.ts";
import { faults, obstacleOf, type StageMeans } from "./schedule.ts";
import { openStage } from "./stage/stage.ts";
import { openTarget, type Target } from "./target.ts";
import { type Summary, summaryText } from "./verdicts.ts";

const MOST_SEED = 1_000_000;
const MINUTE_MS = 60_000;

const numberOf = (option: string, text: string, most: number): number => {
  const number = Number(text);
  if (!Number.isFinite(number) || number <= 0 || number > most)
    throw new UsageError(`${option}: ${text} is not a number from 0 to ${most}`);
  return number;
};

interface Victim {
  readonly target: Target;
  readonly available: StageMeans;
  readonly close: () => Promise<void>;
}
const openVictim = async (home: string, seed: number): Promise<Victim> => {
  if (existsSync(join(home, "run.json"))) {
    tell(`the stack in ${home} will be hurt; nothing in it is lost by that, or a law below says so`);
    const target = await openTarget(home);
    return { target, available: { proxies: false, folders: false, isOurs: false }, close: target.close };
  }
  tell("nothing runs here: a stack of its own is started for this");
  const { target, close } = await openStage(join(home, "chaos-stack"), { random: randomFrom(seed), tell });
  return { target, available: { proxies: true, folders: false, isOurs: true }, close };
};

interface Plan {
  readonly minutes: number;
  readonly seed: number;
  readonly only: readonly string[];
  readonly leaving: AbortSignal;
}
const clock = (): string => new Date().toISOString().slice(11, 19);

const hurt = async ({ target, available }: Victim, { minutes, seed, only, leaving }: Plan): Promise<Summary> => {
  for (const fault of faults) {
    const obstacle = obstacleOf(fault, available);
    const isWanted = only.some((name) => fault.name.startsWith(name) || fault.id === name);
    if (obstacle !== null && isWanted) tell(`not proven here: ${fault.name}: ${obstacle}`);
  }
  tell(`${clock()} seed ${seed}; for ${minutes} minutes`);
  return run(target, {
    seed,
    cycles: Number.POSITIVE_INFINITY,
    until: Date.now() + minutes * MINUTE_MS,
    only,
    available,
    commit: commitOf(),
    results: join(target.home, "chaos-results"),
    tell: (text) => tell(`${clock()} ${text}`),
    detail: (text) => tell(`${clock()}   ${text}`),
    goesOnAfterViolation: true,
    leaving,
  });
};

/** Takes the options of `tributary chaos` and the folder of the stack; returns the exit code. */
export const hurtRunning = async (args: readonly string[]): Promise<number> => {
  const text = { type: "string" } as const;
  const flag = { type: "boolean" } as const;
  const options = { home: text, minutes: text, seed: text, faults: text, list: flag, json: flag };
  const { values } = parseArgs({ args: [...args], options });
  if (values.list === true) {
    print(faults.map(({ id, name }) => `${id.padEnd(5)} ${name}`).join("\n"));
    return 0;
  }
  const minutes = numberOf("--minutes", values.minutes ?? "5", 24 * 60);
  const seed =
    values.seed === undefined ? Date.now() % MOST_SEED : numberOf("--seed", values.seed, Number.MAX_SAFE_INTEGER);
  const only = values.faults?.split(",") ?? [];
  for (const name of only)
    if (!faults.some((fault) => fault.name.startsWith(name) || fault.id === name))
      throw new UsageError(`--faults: there is no fault ${name}; see: tributary chaos --list`);

  const victim = await openVictim(values.home!, seed);
  const leaving = new AbortController();
  const leave = () => {
    tell("ending: heals what is broken, archives its clients, discards its dead letters; Ctrl-C again ends at once");
    leaving.abort();
  };
  process.once("SIGINT", leave);
  process.once("SIGTERM", leave);
  try {
    const summary = await hurt(victim, { minutes, seed, only, leaving: leaving.signal });
    if (values.json === true) printJson({ seed, ...summary });
    else print(summaryText(summary));
    if (summary.violations === 0) return 0;
    tell(`a law was broken; logs and journal lie in ${join(victim.target.home, "chaos-results")}`);
    return 1;
  } finally {
    process.off("SIGINT", leave);
    process.off("SIGTERM", leave);
    await victim.close();
    // An aborted cycle may still wait for something, which must not keep the process alive.
    if (leaving.signal.aborted) process.exit(130);
  }
};
