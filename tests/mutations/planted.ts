// `npm run test:planted`: plants one bug at a time into a copy of the sources, and demands that its
// law catches it.
import { type SpawnSyncReturns, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { repositoryRoot } from "../../infra/embedded/home.ts";
import { table } from "../../infra/runtime/output.ts";
import { type Bug, type ByCycles, type ByTest, bugs } from "./bugs.ts";

const root = repositoryRoot();
const CYCLES_MS = 15 * 60_000;
const TESTS_MS = 15 * 60_000;

interface Caught {
  readonly by: string;
  readonly isCaught: boolean;
  readonly evidence: string;
  readonly seconds: number;
}

const node = (folder: string, args: readonly string[], timeout: number): SpawnSyncReturns<string> =>
  spawnSync(process.execPath, args, {
    cwd: folder,
    encoding: "utf8",
    timeout,
    killSignal: "SIGTERM",
    maxBuffer: 64 * 1024 * 1024,
  });

/** Copies all files of git, with the libraries and servers of this folder. */
const copyOf = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "tributary-planted-"));
  const files = spawnSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" }).stdout.split("\0");
  for (const file of files)
    if (file !== "" && existsSync(join(root, file))) cpSync(join(root, file), join(folder, file));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  mkdirSync(join(folder, ".tributary"));
  symlinkSync(join(root, ".tributary", "jars"), join(folder, ".tributary", "jars"));
  return folder;
};

/** Returns a function that removes the bug. Throws if its place is gone or not unique. */
const plant = (folder: string, { number, edits = [] }: Bug): (() => void) => {
  const before = new Map<string, string>();
  for (const { file, find, plant: bug } of edits) {
    const path = join(folder, file);
    const text = readFileSync(path, "utf8");
    if (!before.has(path)) before.set(path, text);
    if (!text.includes(find))
      throw new Error(
        `bug ${number}: its place in ${file} is gone; plant it where the code is now (tests/mutations/bugs.ts)`,
      );
    writeFileSync(
      path,
      text.replaceAll(find, () => bug),
    );
  }
  return () => {
    for (const [path, text] of before) writeFileSync(path, text);
  };
};

/** The pattern for `-t`. */
const asPattern = (named: readonly string[]): string =>
  named.map((one) => one.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");

/** Runs only the tests with these names: `named` if there is one, else all. */
const byTest = (folder: string, { files, named }: ByTest, names = [named]): Omit<Caught, "seconds"> => {
  const output = join(folder, "planted.json");
  rmSync(output, { force: true });
  const args = [
    "node_modules/vitest/vitest.mjs",
    "run",
    "--config",
    "tests/mutations/vitest.config.ts",
    "--reporter=json",
    `--outputFile=${output}`,
    "-t",
    asPattern(names),
    ...files,
  ];
  const ran = node(folder, args, TESTS_MS);
  if (!existsSync(output)) throw new Error(`the tests did not run: ${ran.stderr.slice(-600)}`);
  const report = JSON.parse(readFileSync(output, "utf8")) as {
    readonly testResults: readonly {
      readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[];
    }[];
  };
  const failed = report.testResults.flatMap(({ assertionResults }) =>
    assertionResults.filter(({ status }) => status === "failed"),
  );
  const found = failed.find(({ fullName }) => fullName.includes(named));
  return {
    by: files.join(", "),
    isCaught: found !== undefined,
    evidence: found?.fullName ?? `${failed.length} tests failed, none of them named so`,
  };
};

const byCycles = (folder: string, { faults, cycles }: ByCycles, laws: readonly string[]): Omit<Caught, "seconds"> => {
  const results = join(folder, ".tributary", "results");
  const by = `${cycles} cycles of "${faults}" on real servers`;
  rmSync(results, { recursive: true, force: true });
  const compiled = node(folder, ["node_modules/typescript/bin/tsc", "-p", "tsconfig.json"], TESTS_MS);
  if (compiled.status !== 0)
    return { by, isCaught: false, evidence: `it does not compile: ${compiled.stdout.slice(0, 300)}` };
  const args = [
    "dist/tools/chaos/main.js",
    "--seed",
    "15",
    "--cycles",
    String(cycles),
    "--faults",
    faults,
    "--results",
    results,
  ];
  const ran = node(folder, args, CYCLES_MS);
  const file = join(results, "seed-15.json");
  if (!existsSync(file)) return { by, isCaught: false, evidence: `no cycle ended: ${ran.stderr.slice(-300)}` };
  const { laws: found } = JSON.parse(readFileSync(file, "utf8")) as {
    readonly laws: readonly { readonly id: string; readonly verdict: string; readonly evidence: string }[];
  };
  const broken = found.filter(({ verdict }) => verdict === "broken");
  const caught = broken.find(({ id }) => laws.includes(id));
  const others = broken.map(({ id }) => id).join(" ");
  return {
    by,
    isCaught: caught !== undefined,
    evidence:
      caught === undefined
        ? `broken were: ${others === "" ? "none" : others}`
        : `${caught.id}: ${caught.evidence.slice(0, 160)} (all: ${others})`,
  };
};

const tried = (folder: string, bug: Bug, isFast: boolean): readonly Caught[] => {
  const take = plant(folder, bug);
  try {
    const timed = (work: () => Omit<Caught, "seconds">): Caught => {
      const began = performance.now();
      return { ...work(), seconds: (performance.now() - began) / 1_000 };
    };
    return [
      ...(bug.test === undefined ? [] : [timed(() => byTest(folder, bug.test!))]),
      ...(bug.cycles === undefined || isFast ? [] : [timed(() => byCycles(folder, bug.cycles!, bug.laws))]),
    ];
  } finally {
    take();
  }
};

const { values } = parseArgs({
  options: { only: { type: "string" }, fast: { type: "boolean" }, write: { type: "boolean" } },
});
const chosen = bugs.filter(({ number }) => values.only === undefined || values.only.split(";").includes(number));
const folder = copyOf();
const rows: (readonly string[])[] = [];
let missed = 0;
try {
  const files = [...new Set(chosen.flatMap(({ test }) => test?.files ?? []))];
  if (files.length > 0) {
    const names = chosen.flatMap(({ test }) => test?.named ?? []);
    const clean = byTest(folder, { files, named: "" }, names);
    if (clean.isCaught) throw new Error(`without any bug a test fails already: ${clean.evidence}`);
  }
  for (const bug of chosen) {
    const { number, says, laws, waitsFor } = bug;
    if (waitsFor !== undefined) {
      rows.push([number, says, laws.join(" "), `waits for ${waitsFor}`, "", ""]);
      continue;
    }
    const all = tried(folder, bug, values.fast === true);
    if (all.length === 0) rows.push([number, says, laws.join(" "), "not tried: it needs real servers", "", ""]);
    for (const { by, isCaught, evidence, seconds } of all) {
      if (!isCaught) missed += 1;
      rows.push([
        number,
        says,
        laws.join(" "),
        isCaught ? "caught" : "MISSED",
        by,
        evidence.replaceAll("|", "/").replaceAll("\n", " "),
      ]);
      console.log(
        `${number} ${says}: ${isCaught ? "caught" : "MISSED"} by ${by} in ${seconds.toFixed(0)} s: ${evidence}`,
      );
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
const headers = ["bug", "what was planted", "law", "result", "by", "evidence"];
console.log(
  `\n${table(
    headers.slice(0, 4),
    rows.map((row) => row.slice(0, 4)),
  )}`,
);
if (values.write === true) {
  const lines = [
    `| ${headers.join(" | ")} |`,
    `|${headers.map(() => "---").join("|")}|`,
    ...rows.map((row) => `| ${row.join(" | ")} |`),
  ];
  const about =
    "Written by `npm run test:planted -- --write`. Each bug is planted into a copy of the sources " +
    "(tests/mutations/bugs.ts); the test or the cycles named here\nmust fail, and in the law named here. " +
    "Without a bug the same tests pass, and the same cycles break no law (guarantees.md).";
  writeFileSync(join(root, "docs", "planted-bugs.md"), `# Planted bugs\n\n${about}\n\n${lines.join("\n")}\n`);
}
process.exitCode = missed > 0 ? 1 : 0;
