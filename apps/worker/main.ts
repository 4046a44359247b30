// apps/worker/main.ts - `worker enrich,score,attribute settle`: hosts stages and sinks by their names in topology.ts; a comma fuses, a space adds a group.
import { openLog } from "../../stream/log.ts";
import { run } from "../../stream/scope.ts";
import { pipeline } from "../../topology.ts";
import { type Config, readConfig } from "./config.ts";
import { type Group, groupsOf } from "./groups.ts";
import { worker } from "./worker.ts";

const start = (): void => {
  let config: Config;
  let groups: readonly Group[];
  try {
    groups = groupsOf(pipeline, process.argv.slice(2));
    config = readConfig();
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n`);
    process.exitCode = 2;
    return;
  }
  const log = openLog({ app: "worker", level: config.LOG_LEVEL }).with({ instance: config.INSTANCE_NAME });
  run(worker(pipeline, groups, config, log), log);
};

start();
