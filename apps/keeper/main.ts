// The recurring work beside the pipeline: probes and restarts stores, computes rollups, sends the
// outbox, inspects each day for fraud. Any number of keepers may run, and one at a time works. The
// optional argument is the address of the platform API, which mails alerts.
import { start } from "../../infra/runtime/start.ts";
import { readConfig } from "./config.ts";
import { keeper } from "./keeper.ts";

start("keeper", readConfig, (config, log) => keeper(config, log, process.argv[2], process.argv.slice(3)));
