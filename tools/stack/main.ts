// The program of `npm start`: [--once] [--no-demo].

import { stackConfig } from "../../infra/embedded/config.ts";
import { openHome } from "../../infra/embedded/home.ts";
import { appsPresent } from "../../modules/running/installation/product.ts";
import { steps } from "../../modules/running/installation/steps.ts";
import { flagsOf, npmStart } from "./npm-start.ts";
import { openShow } from "./show.ts";

try {
  const flags = flagsOf(process.argv.slice(2));
  process.exitCode = await npmStart(
    { apps: appsPresent(openHome(stackConfig().TRIBUTARY_HOME)), steps, show: openShow() },
    flags,
  );
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
