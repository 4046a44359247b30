// Runs one compiled module. Compiles again if a source has changed. Usage: node scripts/run.mjs
// apps/cli/generate/describe.js [argument ...]
import { pathToFileURL } from "node:url";
import { orExplain, prepare, root } from "./prepare.mjs";

const [module, ...args] = process.argv.slice(2);
if (module === undefined) {
  console.error("Which module? For example: node scripts/run.mjs apps/cli/generate/describe.js");
  process.exit(2);
}
await orExplain(() => prepare({ withStack: false }));
// The module gets its own name and arguments, as if Node had started it.
process.argv = [process.argv[0], `${root}/dist/${module}`, ...args];
await import(pathToFileURL(process.argv[1]).href);
