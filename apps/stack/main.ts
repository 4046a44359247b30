// The program behind `npm start`: [--once] [--no-demo].
import { stackConfig } from "./config.ts";
import { openHome } from "./home.ts";
import { flagsOf, npmStart } from "./npm-start.ts";
import { appsPresent, steps } from "./product.ts";

try {
  const flags = flagsOf(process.argv.slice(2));
  process.exitCode = await npmStart({ apps: appsPresent(openHome(stackConfig().TRIBUTARY_HOME)), steps }, flags);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}
