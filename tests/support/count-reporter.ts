// Ends a run with the one line that scripts and people look for: N passed, N failed.
import type { Reporter, TestModule } from "vitest/node";

const counts = { passed: 0, failed: 0, skipped: 0 };

// After vitest's own summary, which is written last. A run that fails without a failed test (a
// set-up that threw) has not passed either.
process.once("exit", (code) => {
  const failed = counts.failed === 0 && code !== 0 ? 1 : counts.failed;
  process.stdout.write(
    `\n${counts.passed} passed, ${failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}\n`,
  );
});

export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly unknown[]): void {
    counts.failed += unhandledErrors.length;
    for (const module of modules) {
      if (module.errors().length > 0) counts.failed += 1;
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        counts[state === "passed" || state === "failed" ? state : "skipped"] += 1;
      }
    }
  }
}
