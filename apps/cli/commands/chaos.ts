// `tributary chaos`: breaks the running stack on purpose, shows what is broken and healed as it
// happens, and ends with a verdict a law.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { print, printJson, tell } from "../../../infra/runtime/output.ts";
import { randomFrom } from "../../../infra/runtime/random.ts";
import { commitOf } from "../../../infra/runtime/version.ts";
import { run } from "../../chaos/run.ts";
import { faults, obstacleOf } from "../../chaos/schedule.ts";
import { openStage } from "../../chaos/stage.ts";
import { openTarget } from "../../chaos/target.ts";
import { summaryText } from "../../chaos/verdicts.ts";
import { homeOf } from "../config.ts";
import { UsageError } from "../csv-events.ts";

interface ChaosOptions {
  readonly minutes: string;
  readonly seed?: string;
  readonly faults?: string;
  readonly list?: boolean;
  readonly json?: boolean;
}
const MOST_SEED = 1_000_000;
const MINUTE_MS = 60_000;

const numberOf = (option: string, text: string, most: number): number => {
  const number = Number(text);
  if (!Number.isFinite(number) || number <= 0 || number > most)
    throw new UsageError(`${option}: ${text} is not a number from 0 to ${most}`);
  return number;
};

/**
 * The stack of `npm start` when it runs here, else one that is started for this and stopped again.
 */
const openVictim = async (seed: number) => {
  const home = homeOf();
  if (existsSync(join(home, "run.json"))) {
    tell(`the stack in ${home} will be hurt; nothing in it is lost by that, or a law below says so`);
    const target = await openTarget(home);
    return { target, available: { proxies: false, folders: false, isOurs: false }, close: target.close };
  }
  tell("nothing runs here: a stack of its own is started for this");
  const { target, close } = await openStage(join(home, "chaos-stack"), randomFrom(seed), tell);
  return { target, available: { proxies: true, folders: false, isOurs: true }, close };
};

const chaos = async (options: ChaosOptions): Promise<void> => {
  if (options.list) return print(faults.map(({ id, name }) => `${id.padEnd(5)} ${name}`).join("\n"));
  const minutes = numberOf("--minutes", options.minutes, 24 * 60);
  const seed =
    options.seed === undefined ? Date.now() % MOST_SEED : numberOf("--seed", options.seed, Number.MAX_SAFE_INTEGER);
  const only = options.faults?.split(",") ?? [];
  for (const name of only)
    if (!faults.some((fault) => fault.name.startsWith(name) || fault.id === name))
      throw new UsageError(`--faults: there is no fault ${name}; see: tributary chaos --list`);
  const { target, available, close } = await openVictim(seed);
  const clock = () => new Date().toISOString().slice(11, 19);
  const leave = () => void close().finally(() => process.exit(130));
  process.once("SIGINT", leave);
  process.once("SIGTERM", leave);
  try {
    for (const fault of faults) {
      const obstacle = obstacleOf(fault, available);
      if (obstacle !== null && only.length > 0 && only.some((name) => fault.name.startsWith(name) || fault.id === name))
        tell(`not proven here: ${fault.name}: ${obstacle}`);
    }
    tell(`${clock()} seed ${seed}; for ${minutes} minutes`);
    const summary = await run(target, {
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
    });
    if (options.json) printJson({ seed, ...summary });
    else print(summaryText(summary));
    if (summary.violations > 0)
      throw new Error(`a law was broken; logs and journal lie in ${join(target.home, "chaos-results")}`);
  } finally {
    process.off("SIGINT", leave);
    process.off("SIGTERM", leave);
    await close();
  }
};

export const chaosCommands = (program: Command): void => {
  program
    .command("chaos")
    .description(
      "breaks the embedded stack of this machine on purpose, while events come, and asks every law whether it still holds",
    )
    .option("--minutes <n>", "a cycle that has begun then is finished", "5")
    .option("--seed <n>", "the same seed breaks the same things in the same order")
    .option("--faults <names>", "only these: names or beginnings of names, with commas between")
    .option("--list", "what can be broken")
    .option("--json", "the verdict as JSON")
    .addHelpText(
      "before",
      'Examples:\n  $ tributary chaos --minutes 5\n  $ tributary chaos --minutes 2 --seed 42 --faults "kill kafka,Redis emptied"\n\nWhat is sent is marked, and goes to the demo clients.\n',
    )
    .action(chaos);
};
