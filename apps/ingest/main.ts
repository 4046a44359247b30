// apps/ingest/main.ts - starts the ingest host with the configuration of its environment.
import { openLog } from "../../stream/log.ts";
import { run } from "../../stream/scope.ts";
import { type Config, readConfig } from "./config.ts";
import { ingest } from "./ingest.ts";

const start = (): void => {
  let config: Config;
  try {
    config = readConfig();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 2;
    return;
  }
  const log = openLog({ app: "ingest", level: config.LOG_LEVEL });
  run(ingest(config, log), log);
};

start();
