// Ends a run with the longest waits, one line for each failure, and the counts "N passed, N
// failed". They come last because the output of a remote run often shows only its end.
import { relative } from "node:path";
import { stripVTControlCharacters } from "node:util";
import type { Reporter, SerializedError, TestCase, TestModule, TestSpecification, TestSuite } from "vitest/node";
import { passRecorder } from "./pass-recorder.ts";
import { longestWaits } from "./waits.ts";

/** The most characters of a message, and of the lines of a diff. */
const LONGEST = 300;
const counts = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];

const asLine = (text: string): string => {
  const line = stripVTControlCharacters(text).replaceAll(/\s+/g, " ").trim();
  return line.length > LONGEST ? `${line.slice(0, LONGEST)} ...` : line;
};

/** The lines of a diff that differ, without its legend. */
const differing = (diff: string): string =>
  stripVTControlCharacters(diff)
    .split("\n")
    .filter((line) => /^[+-] (?!Expected$|Received$)/.test(line))
    .join("\n");

/** The message (with its seed, if it has one), its cause, the differences, and the place. */
const reasonOf = (error: SerializedError): string => {
  const { message, cause, diff, stacks } = error;
  const place = stacks?.at(-1);
  return [
    asLine(message),
    ...(cause === undefined || cause === null ? [] : [`(cause: ${asLine(cause.message)})`]),
    ...(typeof diff === "string" ? [asLine(differing(diff))] : []),
    ...(place === undefined ? [] : [`(${relative("", place.file)}:${place.line})`]),
  ].join(" ");
};

const fail = (names: readonly string[], errors: readonly SerializedError[]): void => {
  counts.failed += 1;
  const [first] = errors;
  failures.push(`${names.join(" > ")}: ${first === undefined ? "no error was given" : reasonOf(first)}`);
};

const namesOf = (of: TestCase | TestSuite | TestModule): readonly string[] => {
  const module = of.type === "module" ? of : of.module;
  return [of.project.name, module.relativeModuleId, ...(of.type === "module" ? [] : [of.fullName])];
};

// Runs after vitest's own summary, which is written last. A run has also failed if no test failed
// but the set-up of the project threw.
process.once("exit", (code) => {
  if (counts.failed === 0 && code !== 0) fail(["the run"], [{ message: `ended with code ${code}` }]);
  const { passed, failed, skipped } = counts;
  const lines = failures.map((failure) => `FAILED ${failure}\n`).join("");
  const waits = longestWaits().map((line) => `${line}\n`);
  process.stdout.write(
    `\n${waits.join("")}${lines}${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}\n`,
  );
});

export default class CountReporter implements Reporter {
  readonly #passes = passRecorder();

  async onTestRunStart(specifications: readonly TestSpecification[]): Promise<void> {
    await this.#passes.start(specifications);
  }

  async onTestRunEnd(modules: readonly TestModule[], unhandledErrors: readonly SerializedError[]): Promise<void> {
    for (const error of unhandledErrors) fail(["outside of a test"], [error]);
    for (const module of modules) {
      for (const group of [module, ...module.children.allSuites()])
        if (group.errors().length > 0) fail(namesOf(group), group.errors());
      for (const test of module.children.allTests()) {
        const { state, errors = [] } = test.result();
        if (state === "failed") fail(namesOf(test), errors);
        else counts[state === "passed" ? "passed" : "skipped"] += 1;
      }
    }
    await this.#passes.end(modules, unhandledErrors.length > 0);
  }
}
