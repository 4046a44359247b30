// The `tributary` command line. stdout is data, stderr the rest; exit 0 ok, 1 failed, 2 usage, 3
// refused.

import { Command, CommanderError } from "commander";
import { redactorOf } from "../../infra/runtime/log.ts";
import { printThrough, tell } from "../../infra/runtime/output.ts";
import { Refused, UsageError } from "../../infra/runtime/refused.ts";
import { alertCommands } from "./commands/alerts.ts";
import { archiveCommands } from "./commands/archive.ts";
import { brokerCommands } from "./commands/broker.ts";
import { chaosCommands } from "./commands/chaos.ts";
import { dataCommands } from "./commands/data.ts";
import { deadLetterCommands } from "./commands/dead-letters.ts";
import { decideCommands } from "./commands/decide.ts";
import { explainCommands } from "./commands/explain.ts";
import { fraudCommands } from "./commands/fraud.ts";
import { groupCommands } from "./commands/groups.ts";
import { hashCommands } from "./commands/hash.ts";
import { installationCommands } from "./commands/installation.ts";
import { lookCommands } from "./commands/look.ts";
import { relearnCommands } from "./commands/relearn.ts";
import { replayCommands } from "./commands/replay.ts";
import { reprocessCommands } from "./commands/reprocess.ts";
import { rewindCommands } from "./commands/rewind.ts";
import { secretCommands } from "./commands/secrets.ts";
import { storeCommands } from "./commands/stores.ts";
import { tokenCommands } from "./commands/tokens.ts";
import { userCommands } from "./commands/users.ts";
import { waitingCommands } from "./commands/waiting.ts";
import { hiddenSecrets } from "./config.ts";

const program = new Command("tributary")
  .description(
    "Operates a Tributary installation: the one that `npm start` runs here, or the one that the environment names.",
  )
  .exitOverride()
  .showHelpAfterError("(add --help for examples)")
  .addHelpText("before", "Examples:\n  $ tributary status\n  $ tributary report --client aurora-music --by month\n");
for (const add of [
  hashCommands,
  installationCommands,
  dataCommands,
  decideCommands,
  waitingCommands,
  explainCommands,
  fraudCommands,
  tokenCommands,
  secretCommands,
  userCommands,
  brokerCommands,
  chaosCommands,
  replayCommands,
  storeCommands,
  archiveCommands,
  alertCommands,
  rewindCommands,
  relearnCommands,
  reprocessCommands,
  lookCommands,
  groupCommands,
  deadLetterCommands,
])
  add(program);

// The reader of the output may have seen enough (`| head`); what a command does goes on.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EPIPE") throw error;
});
printThrough(redactorOf(hiddenSecrets()));
try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : 2;
  else {
    tell((error as Error).message);
    process.exitCode = error instanceof UsageError ? 2 : error instanceof Refused ? 3 : 1;
  }
}
