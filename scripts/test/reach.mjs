// The reach of a test file: every file of the repository that can decide whether it passes.
//
// It begins with the file itself and the set-up of its project, and follows from each source:
// - imports of values, `import()` of a literal path included; an import of types is erased.
// - literal paths of files and folders that are there: in tests, tools, benches and scripts each
//   word of a string; in the product whole strings and join(folder, "a", "b.yaml"). `dist/x.js`
//   stands for its source, `dist/pixel` for browser/ and its bundler.
// - all apps of the product, where a source of tests imports their list or calls startProduct().
// - commands of the command line that a source of tests types ("explain", `tributary explain`); all
//   of them if it reads pages or imports apps/cli/commands.ts.
// - what a comment "// Reaches docs/: ..." names.
// Every file reaches the lock, package.json, the compiler's options and vitest.config.ts; one that
// starts servers reaches migrations/, schemas/ and topics.yaml.
//
// A source that asks git, compiles, computes paths from the root of the repository, imports a path
// that it computes or cannot be parsed makes the reach unknown: such a test runs every time. The
// version of Node is part of each key; dates, the environment and other programs of this machine
// are not.
import { dirname, posix } from "node:path";
import { isOfTests, mentionsOf } from "./mentions.mjs";
import { APPS, appsIn, CLI, COMMANDS, commandsIn, typingOf } from "./product.mjs";

const STACK = "infra/embedded/supervisor.ts";
const OF_SERVERS = ["migrations/", "schemas/", "topics.yaml", "tests/support/broker-jvm.ts"];
const OF_ALL = ["package-lock.json", "package.json", "tsconfig.json", "browser/tsconfig.json", "vitest.config.ts"];
/** It starts apps only for its callers. */
const STARTER = "tests/support/e2e-product.ts";

/** Sources whose paths mean something else than a read. */
const INSTEAD = new Map([
  // It hashes them, to know when to make its folders again.
  ["tests/support/golden-home.ts", []],
  // What it compiles is in the reach of those who start it.
  ["scripts/prepare.mjs", ["infra/embedded/services/"]],
  // Those who start its apps reach them.
  [APPS, []],
  // Its callers name the module.
  ["scripts/run.mjs", []],
  // They compute the path of a module that they start.
  ["tests/support/armed-app.ts", ["dist/apps/api/main.js", "dist/apps/keeper/main.js"]],
  ["scripts/tributary.mjs", ["dist/apps/cli/main.js"]],
]);

/** Tests that another source names are read by it, not run. */
const isTest = (place) => /^tests(\/.*\.test\.ts|\/[^.]*)?$/.test(place);
/** Sources that start apps and type commands. */
const isCaller = (file) => /^(tests|tools|bench)\//.test(file);

const foldersAbove = (file) => [...file.matchAll(/\//g)].map(({ index }) => file.slice(0, index));

/** A compiled file stands for its source. */
const sourcesOf = (path) => {
  if (path.startsWith("dist/pixel")) return ["browser/", "scripts/pixel.mjs"];
  const source = path.replace(/^dist\//, "");
  return [source, source.replace(/\.js$/, ".ts")];
};

/** `meant(file, path, readsFiles)`: places of the tree; `filesIn(place)`: the files of one. */
const placesIn = (tree) => {
  const files = [...tree.keys()];
  const folders = new Set(files.flatMap(foldersAbove));
  const isFolderFor = (file, place, readsFiles) => {
    const folder = place.replace(/\/$/, "");
    if (!folders.has(folder) || folder === dirname(file)) return false;
    return isOfTests(file) ? readsFiles || place.includes("/") : readsFiles && place.includes("/");
  };
  return {
    meant: (file, path, readsFiles) => {
      const isRelative = /^\.\.?\//.test(path);
      const fromRoot = isRelative ? [] : [path.replace(/^\//, "")];
      const fromHere = isRelative || /\.\w+$/.test(path) ? [posix.join(dirname(file), path)] : [];
      return [...fromRoot, ...fromHere]
        .flatMap(sourcesOf)
        .filter((place) => tree.has(place) || isFolderFor(file, place, readsFiles));
    },
    filesIn: (place) =>
      tree.has(place) ? [place] : files.filter((file) => file.startsWith(place.replace(/\/?$/, "/"))),
  };
};

/** What one file adds: sources that run, files that are only read, and why it cannot be known. */
const stepsIn = (tree, mentions, commands) => {
  const { meant, filesIn } = placesIn(tree);
  const apps = appsIn(tree);
  const commandFiles = commands.map(({ file }) => file);
  const typedIn = typingOf(commands);
  const stepOf = (file) => {
    const { imports, paths, unknown, readsFiles, importsLater, startsApps } = mentions(file, tree.get(file));
    const instead = INSTEAD.get(file);
    const isComputed = importsLater && instead === undefined;
    const named = (instead ?? paths)
      .flatMap((path) => meant(file, path, readsFiles))
      .filter((place) => isOfTests(file) || !OF_ALL.includes(place))
      .concat(file === STACK ? OF_SERVERS : []);
    const isRun = (place) => isComputed || !isTest(place);
    const isLost = isComputed && named.every((place) => tree.has(place));
    const run = [
      ...imports.flatMap((path) => meant(file, path, false)),
      ...(startsApps && isCaller(file) && file !== STARTER ? apps : []),
      ...named.filter(isRun).flatMap(filesIn),
    ];
    const read = named.filter((place) => !isRun(place)).flatMap(filesIn);
    const isAnyTyped =
      (file !== CLI && run.includes(COMMANDS)) ||
      (isCaller(file) && [...run, ...read].some((target) => target.endsWith(".md")));
    return {
      // The command line loads only the file of the command that is typed.
      run: file === COMMANDS ? run.filter((target) => !commandFiles.includes(target)) : run,
      read,
      typed: isAnyTyped ? commandFiles : isCaller(file) ? typedIn(tree.get(file)) : [],
      unknown: [...unknown, ...(isLost ? ["imports a path that it computes"] : [])],
    };
  };
  const nothing = { run: [], read: [], typed: [], unknown: [] };
  const steps = new Map();
  const safely = (file) => {
    if (!/\.(ts|mjs)$/.test(file) || !tree.has(file)) return nothing;
    try {
      return stepOf(file);
    } catch {
      return { ...nothing, unknown: ["cannot be parsed"] };
    }
  };
  return (file) => {
    if (!steps.has(file)) steps.set(file, safely(file));
    return steps.get(file);
  };
};

/** `reach(roots)` in the files of `tree`, path to text: the files, and why they cannot be known. */
export const reaches = (tree, mentions = mentionsOf) => {
  const stepOf = stepsIn(tree, mentions, commandsIn(tree));
  return (roots) => {
    const run = new Set(roots);
    const read = new Set(OF_ALL);
    const typed = new Set();
    // Files that are added meanwhile are visited too.
    for (const file of run) {
      const step = stepOf(file);
      for (const target of step.run) run.add(target);
      for (const target of step.read) read.add(target);
      for (const target of step.typed) typed.add(target);
      if (run.has(COMMANDS)) for (const target of typed) run.add(target);
    }
    return {
      files: [...new Set([...run, ...read])].filter((file) => tree.has(file)).sort(),
      unknown: [...run].flatMap((file) => stepOf(file).unknown.map((why) => `${file} ${why}`)),
    };
  };
};
