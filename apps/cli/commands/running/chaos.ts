// `tributary chaos`: runs the fault suite on the stack of this folder and exits with its code.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { CommandRefused } from "../../../../infra/runtime/command-errors.ts";
import { homeOf } from "../../config.ts";

interface ChaosOptions {
  readonly minutes: string;
  readonly seed?: string;
  readonly faults?: string;
  readonly list?: boolean;
  readonly json?: boolean;
}

/**
 * Returns the exit code of the suite. A Ctrl-C reaches it from the terminal; SIGTERM is passed on.
 */
const runSuite = (args: readonly string[]): Promise<number> =>
  new Promise((resolve, reject) => {
    const suite = fileURLToPath(new URL("../../../../tools/chaos/main.js", import.meta.url));
    if (!existsSync(suite))
      throw new CommandRefused("the image holds no faults: run this in a clone of the repository");
    const child = spawn(process.execPath, [suite, "running", ...args], { stdio: "inherit" });
    const passOn = () => child.kill("SIGTERM");
    const stay = () => undefined;
    process.on("SIGTERM", passOn).on("SIGINT", stay);
    child.once("error", reject);
    child.once("exit", (code) => {
      process.off("SIGTERM", passOn).off("SIGINT", stay);
      resolve(code ?? 1);
    });
  });

const chaos = async ({ list, json, ...options }: ChaosOptions): Promise<void> => {
  const given = Object.entries({ home: homeOf(), ...options }).map(([name, value]) => `--${name}=${value}`);
  process.exitCode = await runSuite([...given, ...(list ? ["--list"] : []), ...(json ? ["--json"] : [])]);
};

export const chaosCommands = (program: Command): void => {
  program
    .command("chaos")
    .description(
      "breaks the embedded stack of this machine on purpose, while events come, and asks every law " +
        "whether it still holds",
    )
    .option("--minutes <n>", "a cycle that has begun then is finished", "5")
    .option("--seed <n>", "the same seed breaks the same things in the same order")
    .option("--faults <names>", "only these: names or beginnings of names, with commas between")
    .option("--list", "what can be broken")
    .option("--json", "the verdict as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary chaos --minutes 5\n" +
        '  $ tributary chaos --minutes 2 --seed 42 --faults "kill kafka,Redis emptied"\n\n' +
        "It sends as clients of its own. At its end, also by Ctrl-C, they are archived, and the dead letters\n" +
        "that it caused are discarded.\n",
    )
    .action(chaos);
};
