// Two projects: `fast` needs no service and runs in seconds, `stack` shares one embedded stack of real servers.
import { defineConfig } from "vitest/config";

const failpoint = { "#failpoint": new URL("./stream/failpoint.ts", import.meta.url).pathname };
const stack = ["tests/contracts/**", "tests/guarantees/**", "tests/e2e/**", "tests/guide/**", "tests/stack/**"];
const everything = "tests/**/*.test.ts";

export default defineConfig({
  resolve: { alias: failpoint },
  test: {
    projects: [
      { extends: true, test: { name: "fast", include: [everything], exclude: stack, testTimeout: 30_000 } },
    ],
  },
});
