// Which test files have no recorded pass for the contents that they reach, and why.
import { relative } from "node:path";
import { createVitest } from "vitest/node";
import { recorded } from "./passed.mjs";
import { keysOf } from "./sources.mjs";

/** Files that a reason names. */
const MOST_NAMED = 2;

const inRoot = (path) => relative("", path);
/** What vitest starts before a file of the project. */
const setupsOf = ({ globalSetup = [], setupFiles = [] }) => [...globalSetup, ...setupFiles].map(inRoot);

/** Each test file with its project, as vitest.config.ts sorts them. */
const testFiles = async () => {
  const vitest = await createVitest("test", { watch: false, reporters: [] });
  const specifications = await vitest.globTestSpecifications();
  await vitest.close();
  return specifications.map(({ moduleId, project }) => ({
    file: inRoot(moduleId),
    project: project.name,
    setups: setupsOf(project.config),
  }));
};

/** Why a file runs; null if it passed with these contents. */
const reasonOf = ({ key, contents, unknown }, last) => {
  if (unknown.length > 0) return `its reach is unknown: ${unknown[0]}`;
  if (last === undefined) return "no pass of it is recorded";
  if (last.key === key) return last.isPassed ? null : "it failed with these contents";
  const changed = Object.keys(contents).filter((file) => last.contents[file] !== contents[file]);
  if (changed.length === 0) return "it reaches fewer files, or Node or the rules of reach changed";
  const more = changed.length - MOST_NAMED;
  return `reaches ${changed.slice(0, MOST_NAMED).join(", ")}${more > 0 ? ` and ${more} more that changed` : ""}`;
};

/** Files with an unknown duration are counted, not estimated. */
const timeOf = (tests) => {
  const known = tests.filter(({ seconds }) => seconds !== undefined);
  const sum = Math.round(known.reduce((total, { seconds }) => total + seconds, 0));
  const unknown = tests.length - known.length;
  return `${sum} s in their last runs${unknown > 0 ? `, and ${unknown} without a recorded run` : ""}`;
};

/** Each file of the projects with the reason to run it and the seconds of its last run. */
const judgedIn = async (projects) => {
  const tests = (await testFiles()).filter(({ project }) => projects.includes(project));
  const keys = keysOf(tests);
  return tests.map(({ file, project }, n) => {
    const last = recorded(file);
    return { file, project, seconds: last?.seconds, reason: reasonOf(keys[n], last) };
  });
};

/** The files to run, and lines that say how many; with `isDry` also each one and why. */
export const judged = async (shares, isDry) => {
  const tests = await judgedIn(shares.flatMap(({ projects }) => projects));
  const chosen = tests.filter(({ reason }) => reason !== null);
  const left = tests.length - chosen.length;
  const lines = [
    `${chosen.length} test files run (${timeOf(chosen)})`,
    `${left} are left out: they passed, and nothing that they reach has changed since`,
  ];
  const sorted = chosen.toSorted((a, b) => (b.seconds ?? 0) - (a.seconds ?? 0));
  for (const { file, project, seconds, reason } of isDry ? sorted : [])
    lines.push(`  ${`${seconds?.toFixed(1) ?? "?"} s`.padStart(8)}  ${project.padEnd(10)} ${file}: ${reason}`);
  return { chosen, lines };
};
