// What is done again and again beside the pipeline: stores are probed and restarted, rollups are
// computed, the outbox is sent, each night is looked at for fraud. Any number may run; one at a
// time works. An argument, if given, is the address of the platform API, which mails alerts.
import { start } from "../../infra/runtime/start.ts";
import { readConfig } from "./config.ts";
import { keeper } from "./keeper.ts";

start("keeper", readConfig, (config, log) => keeper(config, log, process.argv[2], process.argv.slice(3)));
