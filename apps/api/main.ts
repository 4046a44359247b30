// Starts the platform API with the configuration of its environment.
import { start } from "../../infra/runtime/start.ts";
import { api } from "./api.ts";
import { readConfig } from "./config.ts";

start("api", readConfig, api);
