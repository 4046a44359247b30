// Runs the tests named for a planted bug, in any folder, but only those that need no server.
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: { alias: { "#failpoint": new URL("../../stream/failpoint.ts", import.meta.url).pathname } },
  test: { include: ["tests/**/*.test.ts"], testTimeout: 60_000 },
});
