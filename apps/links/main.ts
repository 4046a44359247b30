// Starts the host of tracking links with the configuration of its environment.
import { start } from "../../infra/runtime/start.ts";
import { readConfig } from "./config.ts";
import { links } from "./links.ts";

start("links", readConfig, links);
