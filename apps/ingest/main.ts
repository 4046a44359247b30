// Starts the ingest host with the configuration of its environment.
import { start } from "../../infra/runtime/start.ts";
import { readConfig } from "./config.ts";
import { ingest } from "./ingest.ts";

start("ingest", readConfig, ingest);
