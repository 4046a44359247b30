// The files of the working tree with a hash of each content, and what their texts say, which is
// read again only when a text has changed.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { mentionsOf } from "./mentions.mjs";
import { reaches } from "./reach.mjs";

const SCANNED = ".tributary/mentions.json";
const MOST_BYTES = 2 ** 30;
const RULES = ["mentions.mjs", "places.mjs", "product.mjs", "reach.mjs"];

export const hashOf = (...parts) => {
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

/** `mentionsOf` by the hash of a text, kept on disk. */
const scanned = (hashes) => {
  const before = readJson(SCANNED, {});
  const known = before.rules === rules ? before.files : {};
  const files = {};
  let isNew = before.rules !== rules;
  const mentions = (file, text) => {
    const [hash, said] = known[file] ?? [];
    if (hash === hashes.get(file)) files[file] = known[file];
    else {
      files[file] = [hashes.get(file), mentionsOf(file, text)];
      isNew = true;
    }
    return files[file]?.[1] ?? said;
  };
  const keep = () => {
    if (isNew) writeWhole(SCANNED, { rules, files: { ...known, ...files } });
  };
  return { mentions, keep };
};

/** Scripts of package.json decide nothing that a test does, unless it reads that file itself. */
const withoutScripts = () => {
  const { scripts: _, ...rest } = JSON.parse(readFileSync("package.json", "utf8"));
  return hashOf(JSON.stringify(rest));
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
  const ofPackage = withoutScripts();
  const keys = tests.map(({ file, setups }) => {
    const { files, by, unknown } = reach([file, ...setups]);
    const contents = Object.fromEntries(
      files.map((one) => [one, one === "package.json" && by.get(one) === null ? ofPackage : hashes.get(one)]),
    );
    const key = hashOf(process.version, rules, file, ...Object.entries(contents).flat());
    return {
      file,
      key,
      contents,
      unknown,
      startsProcesses: files.some((one) => /^(apps|tools)\/.*main\.ts$/.test(one)),
    };
  });
  keep();
  return keys;
};
