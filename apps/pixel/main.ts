// Starts the host of pixels with the configuration of its environment.
import { start } from "../../infra/runtime/start.ts";
import { readConfig } from "./config.ts";
import { pixel } from "./pixel.ts";

start("pixel", readConfig, pixel);
