// Every `tributary` command on a page exists, with the options that the page shows.
import { readFileSync } from "node:fs";
import { Command, CommanderError } from "commander";
import { beforeAll, expect, test } from "vitest";
import { commandFiles } from "../../apps/cli/commands.ts";
import { mentionsIn, pagesOf, wordsOf } from "../support/page-commands.ts";

/** Parses only: each action just records that it was reached. */
let program: Command;
const silenced = (command: Command): void => {
  command.exitOverride().configureOutput({ writeErr: () => undefined, writeOut: () => undefined });
  if (command.commands.length === 0) command.action(() => undefined);
  for (const sub of command.commands) silenced(sub);
};
beforeAll(async () => {
  program = new Command("tributary");
  for (const { load } of commandFiles) (await load())(program);
  silenced(program);
}, 180_000);

/** Forms that sentences use; `list|show` and `[--x]` stand for several commands. */
const CUT_SHORT = new Set(
  ["missingArgument", "optionMissingArgument", "missingMandatoryOptionValue", "help"].map(
    (code) => `commander.${code}`,
  ),
);
const isPattern = (text: string): boolean => /[|[\]…]|\.\.\.|<noun>/.test(text);

const problemOf = async (words: readonly string[], isWhole: boolean): Promise<string | null> => {
  try {
    await program.parseAsync([...words], { from: "user" });
    return null;
  } catch (error) {
    if (!(error instanceof CommanderError) || error.code === "commander.helpDisplayed") return null;
    return !isWhole && CUT_SHORT.has(error.code) ? null : error.message;
  }
};

test("the pages name commands and options that there are", async () => {
  const mentions = pagesOf().flatMap(mentionsIn);
  expect(mentions.length).toBeGreaterThan(200);
  const wrong: string[] = [];
  for (const { page, text, isWhole } of mentions) {
    if (!isWhole && isPattern(text)) continue;
    const problem = await problemOf(wordsOf(text).slice(1), isWhole);
    if (problem !== null) wrong.push(`${page}: ${text}: ${problem}`);
  }
  expect(wrong).toEqual([]);
});

test("no runbook needs a program that a machine may not have", () => {
  const typed = pagesOf()
    .filter((page) => /runbooks|operate/.test(page))
    .flatMap((page) => (/\bjq\b/.test(readFileSync(page, "utf8")) ? [page] : []));
  expect(typed).toEqual([]);
});
