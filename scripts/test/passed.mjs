// The last result of each test file, under .tributary/passed, which git ignores. Each has a file of
// its own, so that several runs can write at the same time.
import { join } from "node:path";
import { readJson, writeWhole } from "./sources.mjs";

const recordOf = (file) => join(".tributary/passed", `${file.replaceAll("/", "+")}.json`);

/** `results` are `{ file, key, contents, isPassed, seconds }`. */
export const record = (results) => {
  for (const result of results) writeWhole(recordOf(result.file), result);
};

/** The last result of a test file; undefined if it has none. */
export const recorded = (file) => readJson(recordOf(file), undefined);
