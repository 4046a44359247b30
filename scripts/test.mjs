// `npm test`: installs and compiles what is missing, then every suite; ends with "N passed, N
// failed". --fast: only what needs no server.
// Anything else is handed to vitest, e.g. npm test -- tests/guarantees -t "kill -9"
import { spawnSync } from "node:child_process";

const isFast = process.argv.includes("--fast");
const rest = process.argv.slice(2).filter((argument) => argument !== "--fast");
const run = (args) => {
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
};
run(["scripts/prepare.mjs", ...(isFast ? ["--no-servers"] : [])]);
run(["node_modules/vitest/vitest.mjs", "run", ...(isFast ? ["--project", "fast"] : []), ...rest]);
