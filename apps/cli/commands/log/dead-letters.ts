// `tributary dlq`: the dead letters, their reasons, and what is done with them.
import type { Command } from "commander";
import { discardCommand, retryCommand } from "./dead-letters/change.ts";
import { exportCommand, listCommand, showCommand } from "./dead-letters/list.ts";
import { setAsideCommand } from "./dead-letters/set-aside.ts";

/** The order of the commands is that of the help. */
export const deadLetterCommands = (program: Command): void => {
  const dlq = program
    .command("dlq")
    .description("dead letters: what was refused, why, and what becomes of it (docs/dead-letters.md)");
  listCommand(dlq);
  showCommand(dlq);
  retryCommand(dlq);
  discardCommand(dlq);
  exportCommand(dlq);
  setAsideCommand(dlq);
};
