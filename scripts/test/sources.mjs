// The files of the working tree with a hash of each content, what their texts say, which is read
// again only when a text has changed, and the key of a test file.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { mentionsOf } from "./mentions.mjs";
import { reaches } from "./reach.mjs";

const SCANNED = ".tributary/mentions.json";
const MOST_BYTES = 2 ** 30;
const RULES = ["mentions.mjs", "product.mjs", "reach.mjs"];

const hashOf = (...parts) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part).update("\0");
  return hash.digest("hex").slice(0, 16);
};
/** Another rule may reach other files, so it makes other keys. */
const rules = hashOf(...RULES.map((name) => readFileSync(new URL(name, import.meta.url))));

/** Renamed into its place, because several runs write at the same time. */
export const writeWhole = (file, value) => {
  mkdirSync(dirname(file), { recursive: true });
  const draft = `${file}.${process.pid}.new`;
  writeFileSync(draft, JSON.stringify(value));
  renameSync(draft, file);
};
export const readJson = (file, otherwise) => {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return otherwise;
  }
};

/** Texts of sources, and hashes of all files, as they lie in this folder. */
const workingFiles = () => {
  const args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
  const tree = new Map();
  const hashes = new Map();
  for (const file of execFileSync("git", args, { encoding: "utf8", maxBuffer: MOST_BYTES }).split("\0")) {
    if (file === "" || !statSync(file, { throwIfNoEntry: false })?.isFile()) continue;
    const bytes = readFileSync(file);
    tree.set(file, /\.(ts|mjs)$/.test(file) ? bytes.toString() : "");
    hashes.set(file, hashOf(bytes));
  }
  return { tree, hashes };
};

/** `mentionsOf` with the hash of each text, kept on disk. */
const scanned = (hashes) => {
  const before = readJson(SCANNED, {});
  const files = before.rules === rules ? before.files : {};
  let isNew = false;
  const mentions = (file, text) => {
    if (files[file]?.hash !== hashes.get(file)) {
      files[file] = { hash: hashes.get(file), said: mentionsOf(file, text) };
      isNew = true;
    }
    return files[file].said;
  };
  return { mentions, keep: () => isNew && writeWhole(SCANNED, { rules, files }) };
};

/** `reach` of the files in this folder; `keep` writes what their texts say for the next time. */
export const workingReach = () => {
  const { tree, hashes } = workingFiles();
  const { mentions, keep } = scanned(hashes);
  return { tree, hashes, reach: reaches(tree, mentions), keep };
};

/**
 * Of test files `{ file, setups }`: the key of each, the contents that are in it, and what makes
 * its reach unknown.
 */
export const keysOf = (tests) => {
  const { hashes, reach, keep } = workingReach();
  const keys = tests.map(({ file, setups }) => {
    const { files, unknown } = reach([file, ...setups]);
    const contents = Object.fromEntries(files.map((one) => [one, hashes.get(one)]));
    const key = hashOf(process.version, rules, file, ...Object.entries(contents).flat());
    return { file, key, contents, unknown };
  });
  keep();
  return keys;
};
