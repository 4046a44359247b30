// The `tributary` command line. Data goes to stdout, everything else to stderr. Exit codes: 0 ok, 1
// failed, 2 usage, 3 refused.

import { Command, CommanderError } from "commander";
import { CommandRefused, UsageError } from "../../infra/runtime/command-errors.ts";
import { redactorOf } from "../../infra/runtime/keyring.ts";
import { printThrough, tell } from "../../infra/runtime/output.ts";
import { RefusalError } from "../../modules/base/refusal.ts";
import { commandFiles, fileOf, needsOf } from "./commands.ts";
import { isUsage, sentencesOf } from "./refusals.ts";
import { strayWords } from "./stray-words.ts";

const program = new Command("tributary")
  .description(
    "Operates a Tributary installation: the one that `npm start` runs here, or the one that the environment names.",
  )
  .exitOverride()
  .showHelpAfterError("(add --help for examples)")
  .configureHelp({ subcommandTerm: (command) => command.name() })
  .addHelpText("before", "Examples:\n  $ tributary status\n  $ tributary report --client aurora-music --by month\n");

/**
 * Returns the command that is called, or the one whose help is requested: `tributary help send`.
 */
const called = (words: readonly string[]): string | undefined => (words[0] === "help" ? words[1] : words[0]);

/** A command continues when the reader of its output ends early (`| head`). */
const outliveReader = (stream: NodeJS.WriteStream): void => {
  stream.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
};

const topOf = (command: Command): string => {
  const { parent } = command;
  return parent === null || parent === program ? command.name() : topOf(parent);
};

const readied = async (command: Command): Promise<void> => {
  const needed = needsOf(topOf(command));
  if (needed.length > 0) await (await import("./reachable.ts")).reach(needed);
};

const exitCodeOf = (error: unknown): number => {
  if (error instanceof RefusalError) return isUsage(error) ? 2 : 3;
  return error instanceof UsageError ? 2 : error instanceof CommandRefused ? 3 : 1;
};

/** Exits although a connection to a hanging server may be open, since all output is written. */
const endSoon = (afterMs: number): void =>
  void setTimeout(() => process.stdout.write("", () => process.exit()), afterMs).unref();

// At an end of its own Node waits, at full speed, for a write that a server never took (seen in
// Node 20, in Environment::CleanupHandles). Nothing is left to do then.
process.once("beforeExit", () => process.exit());
for (const stream of [process.stdout, process.stderr]) outliveReader(stream);
const file = fileOf(called(process.argv.slice(2)));
if (file !== undefined) (await file.load())(program);
for (const { commands } of commandFiles)
  for (const [name, { description }] of Object.entries(commands))
    if (!program.commands.some((command) => command.name() === name)) program.command(name).description(description);
program.hook("preAction", (_, action) => readied(action));
try {
  if (file !== undefined) printThrough(redactorOf((await import("./config.ts")).hiddenSecrets()));
  await program.parseAsync();
  endSoon(500);
} catch (error) {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? 0 : 2;
    if (error.code === "commander.excessArguments") tell(strayWords(program));
  } else {
    tell(error instanceof RefusalError ? sentencesOf(error).join("\n") : (error as Error).message);
    process.exitCode = exitCodeOf(error);
    endSoon(100);
  }
}
