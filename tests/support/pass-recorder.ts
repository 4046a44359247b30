// Records which test files passed whole, under the contents that they reach: `npm run test:changed`
// leaves these out.
import { relative } from "node:path";
import type { TestModule, TestSpecification } from "vitest/node";

interface Test {
  readonly file: string;
  readonly setups: readonly string[];
}
interface Key {
  readonly file: string;
  readonly key: string;
  readonly contents: Readonly<Record<string, string>>;
}
interface Result extends Pick<Key, "file" | "key" | "contents"> {
  readonly isPassed: boolean;
  readonly seconds: number;
}

const script = async <T>(path: string): Promise<T> =>
  (await import(new URL(`../../scripts/${path}.mjs`, import.meta.url).href)) as T;
const keysOf = async (tests: readonly Test[]): Promise<readonly Key[]> =>
  (await script<{ readonly keysOf: (tests: readonly Test[]) => readonly Key[] }>("test/sources")).keysOf(tests);
const isCompiled = async (): Promise<boolean> =>
  (await script<{ readonly isCompiled: () => boolean }>("prepare")).isCompiled();

/** Every test ran and passed: one that was skipped, for `-t` or `only` too, has not passed. */
const isWhole = (module: TestModule): boolean =>
  module.state() === "passed" && [...module.children.allTests()].every((test) => test.result().state === "passed");
const secondsOf = (module: TestModule): number => {
  const { prepareDuration, collectDuration, duration } = module.diagnostic();
  return Math.round(prepareDuration + collectDuration + duration) / 1_000;
};

/** A run must not fail because it cannot be recorded: outside of a clone there is no git. */
const orNothing = async <T>(work: () => Promise<T>, nothing: T): Promise<T> => {
  try {
    return await work();
  } catch (error) {
    console.error(`not recorded: ${(error as Error).message.split("\n")[0]}`);
    return nothing;
  }
};

/** Other configurations, and servers that the environment names, are not what `npm test` runs. */
const isOrdinary = ([first]: readonly TestSpecification[]): boolean =>
  process.env.KAFKA_BROKERS === undefined && /vitest\.config\.ts$/.test(configOf(first));
const configOf = (specification: TestSpecification | undefined): string =>
  String(specification?.project.vitest.vite.config.configFile);

export const passRecorder = () => {
  let tests: readonly Test[] = [];
  let before = new Map<string, Key>();
  return {
    start: (specifications: readonly TestSpecification[]): Promise<void> =>
      orNothing(async () => {
        // Any test may start a process from dist/, and an old one proves nothing about the sources.
        if (!isOrdinary(specifications) || !(await isCompiled())) return;
        tests = specifications.map(({ moduleId, project: { config } }) => ({
          file: relative("", moduleId),
          setups: [config.globalSetup, config.setupFiles].flat().map((path) => relative("", path)),
        }));
        before = new Map((await keysOf(tests)).map((key) => [key.file, key]));
      }, undefined),

    /** A file whose contents changed during the run is not recorded. */
    end: (modules: readonly TestModule[], isBroken: boolean): Promise<void> =>
      orNothing(async () => {
        if (tests.length === 0) return;
        const names = new Map(modules.map((module) => [relative("", module.moduleId), module]));
        const results: Result[] = [];
        for (const { file, key, contents } of await keysOf(tests)) {
          const module = names.get(file);
          const isSame = before.get(file)?.key === key;
          if (module === undefined || !isSame || !/passed|failed/.test(module.state())) continue;
          const isPassed = !isBroken && isWhole(module);
          if (!isPassed && module.state() === "passed") continue;
          results.push({ file, key, contents, isPassed, seconds: secondsOf(module) });
        }
        const { record } = await script<{ readonly record: (results: readonly Result[]) => void }>("test/passed");
        record(results);
      }, undefined),
  };
};
