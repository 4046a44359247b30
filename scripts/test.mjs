// `npm test`: installs and compiles what is missing, then runs every suite. Ends with a line for
// each failure and with "N passed, N failed". --fast: only tests that need no server. --changed:
// only test files that reach something that changed since they last passed. Other arguments go to
// vitest, e.g. npm test -- tests/guarantees -t "kill -9"
import { spawn, spawnSync } from "node:child_process";
import { totalmem } from "node:os";
import { createInterface } from "node:readline";

const OWN = ["--fast", "--changed", "--dry"];
const [isFast, choosesChanged, isDry] = OWN.map((option) => process.argv.includes(option));
const isChanged = choosesChanged || isDry;
const rest = process.argv.slice(2).filter((argument) => !OWN.includes(argument));
const FAST = ["fast", "apart"];
const usage = `Usage: npm test                  every suite
       npm test -- <arguments>   one run of vitest: npm test -- tests/guarantees -t "kill -9"
       npm run test:fast         only tests that need no server
       npm run test:changed      only the test files that reach something that changed since they last passed

  --dry    with test:changed: prints these files and what changed, and runs nothing
  --help   prints this

For example, after a change in processors/score/rules/visitor.ts:
  npm run test:changed -- --dry    which files it reaches, and how long they take
  npm run test:changed             runs them; N passed, N failed
scripts/test/reach.mjs says what a test file reaches.`;
const vitest = ["node_modules/vitest/vitest.mjs", "run"];

const run = (args) => {
  const { status } = spawnSync(process.execPath, args, { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
};

/**
 * Runs some projects, or a share of their files such as `1/2`. Their output passes through, with a
 * name if several runs share the screen. The summary that tests/support/count-reporter.ts writes is
 * kept until all have ended.
 */
const suites = ({ projects, share, name, files = [] }) =>
  new Promise((resolve) => {
    const chosen = projects.flatMap((project) => ["--project", project]);
    const args = [...vitest, ...chosen, ...(share === undefined ? [] : ["--shard", share]), ...files];
    // A lane runs one file at a time, even where a project would use a worker for each core.
    const env = name === undefined ? process.env : { ...process.env, VITEST_MAX_WORKERS: "1" };
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"], env });
    const counts = { passed: 0, failed: 0, skipped: 0 };
    const failures = [];
    const pass = (stream, to) =>
      createInterface({ input: stream }).on("line", (line) => {
        const last = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/.exec(line);
        if (last !== null)
          [counts.passed, counts.failed, counts.skipped] = last.slice(1).map((count) => Number(count ?? 0));
        else if (line.startsWith("FAILED ")) failures.push(line);
        else to.write(name === undefined ? `${line}\n` : `${name.padEnd(14)} | ${line}\n`);
      });
    pass(child.stdout, process.stdout);
    pass(child.stderr, process.stderr);
    child.once("close", (code, signal) => {
      if (code !== 0 && counts.failed === 0) {
        counts.failed = 1;
        failures.push(`FAILED ${name ?? projects.join(", ")}: ended by ${signal ?? `code ${code}`} before its results`);
      }
      resolve({ ...counts, failures });
    });
  });

const GIB = 1024 ** 3;
/** Each lane has its own servers of about 2 GiB, and waits for nearly half of its time. */
const LANES = totalmem() >= 12 * GIB ? 3 : 2;
const SHARES = [
  { projects: ["product"] },
  { projects: ["shared"] },
  { projects: ["suite"] },
  { projects: [...FAST, "thorough"] },
  { projects: ["guarantees"], share: "1/2" },
  { projects: ["e2e"] },
  { projects: ["guarantees"], share: "2/2" },
  { projects: ["servers"] },
];

/** Runs several suites side by side, the longest first. The next one starts when one ends. */
const sideBySide = async (shares) => {
  const waiting = [...shares];
  const counts = [];
  const lane = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift())
      counts.push(await suites({ ...next, name: [next.projects[0], next.share].join(" ").trim() }));
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return counts;
};

/** Prints what has failed, and the sums. */
const conclude = (runs) => {
  const sum = (count) => runs.reduce((total, one) => total + one[count], 0);
  const skipped = sum("skipped");
  console.log(["", ...runs.flatMap(({ failures }) => failures)].join("\n"));
  console.log(`${sum("passed")} passed, ${sum("failed")} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
  process.exitCode = sum("failed") > 0 ? 1 : 0;
};

/** The gate measures, so nothing runs beside it. */
const GATE = { projects: ["gate"] };

/** The shares with only these files; a share of fewer files than shares goes with the first one. */
const sharesOf = (shares, tests) =>
  shares.flatMap((one) => {
    const files = tests.filter(({ project }) => one.projects.includes(project)).map(({ file }) => file);
    const [part, parts] = (one.share ?? "1/1").split("/").map(Number);
    if (files.length === 0 || (files.length < parts && part > 1)) return [];
    return [{ projects: one.projects, files, ...(files.length < parts || parts === 1 ? {} : { share: one.share }) }];
  });

const runChanged = async () => {
  const { chosen, lines } = await (await import("./test/changed.mjs")).judged([GATE, ...SHARES], isDry);
  console.log(lines.join("\n"));
  if (isDry) return;
  const first = [];
  for (const share of sharesOf([GATE], chosen)) first.push(await suites(share));
  conclude([...first, ...(await sideBySide(sharesOf(SHARES, chosen)))]);
};

if (process.argv.includes("--help")) {
  console.log(usage);
  process.exit(0);
}
if (isChanged && rest.length > 0) {
  console.error(
    `npm run test:changed chooses the files itself and takes no other argument: ${rest.join(" ")}. ` +
      `Leave it out, or run these files whether they changed or not: npm test -- ${rest.join(" ")}`,
  );
  process.exit(2);
}
if (!isDry) run(["scripts/prepare.mjs", ...(isFast ? ["--no-servers"] : [])]);
if (isChanged) await runChanged();
else if (isFast || rest.length > 0)
  run([...vitest, ...(isFast ? FAST.flatMap((name) => ["--project", name]) : []), ...rest]);
else conclude([await suites(GATE), ...(await sideBySide(SHARES))]);
