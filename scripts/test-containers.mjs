// `npm run test:containers`: runs the contract suites on the images of docker-compose.yml instead
// of the embedded servers. Other arguments go to vitest.
import { spawnSync } from "node:child_process";
import { orExplain, prepare } from "./prepare.mjs";

await orExplain(() => prepare({ withStack: false }));
const { getContainerRuntimeClient } = await import("testcontainers");
const client = await getContainerRuntimeClient().catch(() => undefined);
if (client?.compose.info === undefined) {
  const missing =
    client === undefined ? "container engine answers here" : "docker compose was found beside the container engine";
  console.error(
    `No ${missing}: ` +
      "start Docker (or Podman with its Docker socket) and try again, or run the same suites on the " +
      "embedded servers with npm test.",
  );
  process.exit(1);
}
const vitest = [
  "node_modules/vitest/vitest.mjs",
  "run",
  "--config",
  "vitest.containers.config.ts",
  ...process.argv.slice(2),
];
process.exit(spawnSync(process.execPath, vitest, { stdio: "inherit" }).status ?? 1);
