// The frame of every app's main.ts.

import type { Environment } from "./environment.ts";
import { secretsIn } from "./keyring.ts";
import { type Log, openLog } from "./log.ts";
import { run, type Scope } from "./scope.ts";

/**
 * Runs `main` until the process must stop. A wrong configuration is printed in one piece, and ends
 * the process with 2 before anything is opened.
 */
export const start = <Config extends Environment<"INSTANCE_NAME" | "LOG_LEVEL">>(
  app: string,
  readConfig: () => Config,
  main: (config: Config, log: Log) => (scope: Scope) => Promise<void>,
): void => {
  let config: Config;
  try {
    config = readConfig();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 2;
    return;
  }
  const log = openLog({ app, level: config.LOG_LEVEL, secrets: secretsIn(config) }).with({
    instance: config.INSTANCE_NAME,
  });
  run(main(config, log), log);
};
