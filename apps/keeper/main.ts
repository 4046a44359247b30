// apps/keeper/main.ts - what is done again and again beside the pipeline: stores are probed and restarted, rollups are computed, the outbox is sent, each
// night is looked at for fraud. Any number may run; one at a time works. An argument, if given, is the address of the platform API, which mails alerts.
import { openLog } from "../../stream/log.ts";
import { run } from "../../stream/scope.ts";
import { type Config, readConfig } from "./config.ts";
import { keeper } from "./keeper.ts";

const start = (): void => {
  let config: Config;
  try {
    config = readConfig();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 2;
    return;
  }
  const log = openLog({ app: "keeper", level: config.LOG_LEVEL }).with({ instance: config.INSTANCE_NAME });
  run(keeper(config, log, process.argv[2]), log);
};

start();
