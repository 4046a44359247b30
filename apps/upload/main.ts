// Starts the host of uploads with the configuration of its environment.
import { start } from "../../infra/runtime/start.ts";
import { readConfig } from "./config.ts";
import { upload } from "./upload.ts";

start("upload", readConfig, upload);
