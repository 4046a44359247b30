// apps/api/main.ts - starts the platform API with the configuration of its environment.
import { openLog } from "../../stream/log.ts";
import { run } from "../../stream/scope.ts";
import { api } from "./api.ts";
import { type Config, readConfig } from "./config.ts";

const start = (): void => {
  let config: Config;
  try {
    config = readConfig();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 2;
    return;
  }
  const log = openLog({ app: "api", level: config.LOG_LEVEL }).with({ instance: config.INSTANCE_NAME });
  run(api(config, log), log);
};

start();
