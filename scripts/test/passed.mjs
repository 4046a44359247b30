// What earlier runs have recorded: for each test file whether it passed whole, under the key of its
// reach. Every run writes a file of its own, so that runs side by side lose nothing.
import { readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { readJson, writeWhole } from "./sources.mjs";

const FOLDER = ".tributary/passed";

const runFiles = () => {
  try {
    return readdirSync(FOLDER)
      .filter((name) => name.endsWith(".json"))
      .sort();
  } catch {
    return [];
  }
};

/** `results` are `{ file, key, contents, isPassed, seconds }`; equal contents are written once. */
export const record = (results, now = Date.now()) => {
  if (results.length === 0) return;
  const contents = Object.assign({}, ...results.map((result) => result.contents));
  const rows = results.map(({ file, key, isPassed, seconds }) => ({ file, key, isPassed, seconds }));
  writeWhole(join(FOLDER, `${now}-${process.pid}.json`), { contents, results: rows });
};

/**
 * By key the last result, and by file the last pass with the contents of its run. A run of which
 * later ones have repeated each file is removed.
 */
export const recorded = () => {
  const byKey = new Map();
  const byFile = new Map();
  const seconds = new Map();
  const runs = runFiles().map((name) => [name, readJson(join(FOLDER, name), { contents: {}, results: [] })]);
  const later = new Set();
  for (const [name, { contents, results }] of runs.reverse()) {
    const isRepeated = results.every(({ file }) => later.has(file));
    if (isRepeated) rmSync(join(FOLDER, name), { force: true });
    for (const result of results) {
      const { file, key, isPassed } = result;
      if (!byKey.has(key)) byKey.set(key, result);
      if (isPassed && !byFile.has(file)) byFile.set(file, contents);
      if (!seconds.has(file)) seconds.set(file, result.seconds);
      if (isPassed) later.add(file);
    }
  }
  return { byKey, byFile, seconds };
};
