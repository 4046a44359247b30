// The contract suites on the images of docker-compose.yml; started by scripts/test-containers.mjs.
import { defineConfig } from "vitest/config";

// These files start, stop and kill embedded servers. Their results hold for any broker, but they
// cannot run against containers.
const ownServers = ["kafka", "registry", "tls"].map((name) => `tests/contracts/${name}.test.ts`);

export default defineConfig({
  resolve: { alias: { "#failpoint": new URL("./stream/failpoint.ts", import.meta.url).pathname } },
  test: {
    reporters: ["default", "./tests/support/count-reporter.ts"],
    include: ["tests/contracts/**/*.test.ts"],
    exclude: ownServers,
    globalSetup: "./tests/support/start-containers.ts",
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
