// `worker enrich,score,attribute settle`: hosts stages and sinks by their names in topology.ts. A
// comma fuses stages into one group, a space begins another group.

import { start } from "../../infra/runtime/start.ts";
import { groupsOf } from "../../modules/log/groups/hosting.ts";
import { pipeline } from "../../topology.ts";
import { readConfig } from "./config.ts";
import { worker } from "./worker.ts";

const asked = () => ({ groups: groupsOf(pipeline, process.argv.slice(2)), ...readConfig() });
start("worker", asked, ({ groups, ...config }, log) => worker(pipeline, groups, config, log));
