// Examples for each way of sending events to the running stack, ready to paste.
import type { Command } from "commander";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson } from "../../../../infra/runtime/output.ts";
import { examplesOf, printedExamples } from "../../../../modules/running/installation/examples.ts";
import { readRun } from "../../config.ts";

const examples = (name: string | undefined, { json }: { json?: boolean }): void => {
  const run = readRun();
  if (run.demo === undefined) throw new Error("the demonstration was not seeded here: tributary seed --demo");
  const all = examplesOf(run.apps, run.demo);
  const asked = name === undefined ? all : all.filter((one) => one.name === name);
  if (asked.length === 0) throw new UsageError(`${name} is none of ${all.map((one) => one.name).join(", ")}`);
  if (json) printJson(asked);
  else print(name === undefined ? printedExamples(asked) : asked[0]!.command);
};

export const exampleCommands = (program: Command): void => {
  program
    .command("examples")
    .description("every way of sending events to what runs here, as commands to paste")
    .argument("[name]", "one of them alone: its command and nothing else")
    .option("--json", "as JSON")
    .addHelpText("before", 'Examples:\n  $ tributary examples\n  $ sh -c "$(npx tributary examples batch)"\n')
    .action(examples);
};
