// The `tributary` command line. stdout is data, stderr the rest; exit 0 ok, 1 failed, 2 usage, 3
// refused.

import { Command, CommanderError } from "commander";
import { redactorOf } from "../../infra/runtime/log.ts";
import { printThrough, tell } from "../../infra/runtime/output.ts";
import { Refused, UsageError } from "../../infra/runtime/refused.ts";
import { secretCommands } from "./commands/access/secrets.ts";
import { tokenCommands } from "./commands/access/tokens.ts";
import { userCommands } from "./commands/access/users.ts";
import { archiveCommands } from "./commands/log/archive.ts";
import { brokerCommands } from "./commands/log/broker.ts";
import { deadLetterCommands } from "./commands/log/dead-letters.ts";
import { groupCommands } from "./commands/log/groups.ts";
import { relearnCommands } from "./commands/log/relearn.ts";
import { replayCommands } from "./commands/log/replay.ts";
import { rewindCommands } from "./commands/log/rewind.ts";
import { decideCommands } from "./commands/money/decide.ts";
import { explainCommands } from "./commands/money/explain.ts";
import { fraudCommands } from "./commands/money/fraud.ts";
import { reprocessCommands } from "./commands/money/reprocess.ts";
import { waitingCommands } from "./commands/money/waiting.ts";
import { alertCommands } from "./commands/running/alerts.ts";
import { chaosCommands } from "./commands/running/chaos.ts";
import { dataCommands } from "./commands/running/data.ts";
import { hashCommands } from "./commands/running/hash.ts";
import { installationCommands } from "./commands/running/installation.ts";
import { lookCommands } from "./commands/running/look.ts";
import { pixelCommands } from "./commands/running/pixel.ts";
import { storeCommands } from "./commands/running/stores.ts";
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
  pixelCommands,
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
