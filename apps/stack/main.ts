// The program behind `npm start`: [--once] [--no-demo].
import { openShow } from "../ops/show.ts";
import { steps } from "../ops/steps.ts";
import { stackConfig } from "./config.ts";
import { openHome } from "./home.ts";
import { flagsOf, npmStart } from "./npm-start.ts";
import { appsPresent } from "./product.ts";

try {
  const flags = flagsOf(process.argv.slice(2));
  process.exitCode = await npmStart({ apps: appsPresent(openHome(stackConfig().TRIBUTARY_HOME)), steps, show: openShow() }, flags);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
