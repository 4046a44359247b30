// The reach of a test file: every file of the repository that can decide whether it passes.
//
// It begins with the file itself and the set-up of its project, and follows from each source:
// - imports of values, `import()` of a literal path included; an import of types is erased.
// - literal paths of files and folders that are there: in tests, tools, benches and scripts each
//   word of a string; in the product whole strings and join(folder, "a", "b.yaml"). `dist/x.js`
//   stands for its source, `dist/pixel` for browser/.
// - the apps that it starts: those that the call names, or all. A file that joins the installation
//   of the project `product` reaches all but the platform API, and that too if it names it.
// - handlers of the platform API whose paths it asks ("/api/partners/7"), or all where it calls the
//   API in its own process.
// - commands of the command line that its tests type ("explain", `tributary explain`), or all where
//   they read pages.
// - what a comment "// Reaches docs/: ..." names.
// Every file reaches the lock, the compiler's options and vitest.config.ts; one that starts servers
// reaches migrations/, schemas/ and topics.yaml.
//
// A source that asks git, compiles, imports a path that it computes or cannot be parsed makes the
// reach unknown: such a test runs every time. The version of Node is part of each key; dates, the
// environment and other programs of this machine are not.
import { posix } from "node:path";
import { mentionsOf } from "./mentions.mjs";
import { isOfTests, placesIn } from "./places.mjs";
import { APPS, appsIn, CLI, LOADS_LATER, namedTogether, STARTERS, startedBy } from "./product.mjs";

const STACK = "infra/embedded/supervisor.ts";
const OF_SERVERS = ["migrations/", "schemas/", "topics.yaml", "tests/support/broker-jvm.ts"];
const OF_ALL = ["package-lock.json", "package.json", "tsconfig.json", "browser/tsconfig.json", "vitest.config.ts"];

/** Sources whose paths mean something else than a read. */
const INSTEAD = new Map([
  // It hashes them, to know when to make its folders again.
  ["tests/support/golden-home.ts", []],
  // What it compiles is in the reach of those who start it.
  ["scripts/prepare.mjs", ["infra/embedded/services/"]],
  // The callers name the apps, the modules and the commands.
  ...[APPS, "tests/support/armed-app.ts", "scripts/run.mjs"].map((file) => [file, []]),
  ["scripts/tributary.mjs", [CLI]],
]);

const isSource = (file) => /\.(ts|mjs)$/.test(file);
/** Tests that another source names are read by it, not run. */
const isTest = (place) => /^tests(\/.*\.test\.ts|\/[^.]*)?$/.test(place);

/** Commands and handlers, which are loaded by their names. */
const isLoadedLater = (file, target) => LOADS_LATER.has(file) && /^apps\/(cli\/commands|api\/routes)\//.test(target);

/** What one file adds: sources that run, files that are only read, and why it cannot be known. */
const stepsIn = (tree, mentions) => {
  const { meant, filesIn } = placesIn(tree);
  const apps = appsIn(tree);
  const stepOf = (file) => {
    const { imports, paths, unknown, readsFiles, importsLater, apps: names } = mentions(file, tree.get(file));
    const instead = INSTEAD.get(file);
    const isComputed = importsLater && instead === undefined;
    const mentioned = instead ?? paths.flatMap((path) => meant(file, path, readsFiles));
    const named = [
      ...mentioned.filter((place) => isOfTests(file) || !OF_ALL.includes(place)),
      ...(file === STACK ? OF_SERVERS : []),
    ];
    const imported = imports.map((path) => (path.startsWith(".") ? posix.join(file, "..", path) : path));
    const isRun = (place) => isComputed || !isTest(place);
    const isLost = isComputed && named.every((place) => tree.has(place));
    return {
      code: [
        ...imported.filter((target) => tree.has(target) && !isLoadedLater(file, target)),
        ...(STARTERS.includes(file) ? [] : startedBy(apps, names)),
        ...named
          .filter(isRun)
          .flatMap(filesIn)
          .filter((target) => !isLoadedLater(file, target)),
      ],
      data: named.filter((place) => !isRun(place)).flatMap(filesIn),
      unknown: [...unknown, ...(isLost ? ["imports a path that it computes"] : [])],
    };
  };
  const steps = new Map();
  const safely = (file) => {
    if (!isSource(file)) return { code: [], data: [], unknown: [] };
    try {
      return stepOf(file);
    } catch {
      return { code: [], data: [], unknown: ["cannot be parsed"] };
    }
  };
  return (file) => {
    if (!steps.has(file)) steps.set(file, safely(file));
    return steps.get(file);
  };
};

/**
 * `reach(roots)` in the files of `tree`, path to text: `by` says which file first named each one,
 * `unknown` why the reach cannot be known.
 */
export const reaches = (tree, mentions = mentionsOf) => {
  const stepOf = stepsIn(tree, mentions);
  const together = namedTogether(tree);
  return (roots) => {
    const by = new Map(roots.map((file) => [file, null]));
    const read = new Map();
    const unknown = [];
    const inside = new Set();
    const follow = (file) => {
      const { code, data, unknown: reasons } = stepOf(file);
      for (const [loader, from] of LOADS_LATER) if (file !== from && code.includes(loader)) inside.add(loader);
      unknown.push(...reasons.map((why) => `${file} ${why}`));
      for (const target of code) if (!by.has(target)) by.set(target, file);
      for (const target of data) if (!read.has(target)) read.set(target, file);
    };
    const followed = new Set();
    while (followed.size < by.size) {
      // Entries that are added meanwhile are visited too.
      for (const file of by.keys()) {
        if (!followed.has(file)) follow(file);
        followed.add(file);
      }
      for (const [file, from] of together(by, read, inside)) if (!by.has(file)) by.set(file, from);
    }
    for (const [file, from] of read) if (!by.has(file)) by.set(file, from);
    for (const file of OF_ALL) if (!by.has(file)) by.set(file, null);
    return { files: [...by.keys()].filter((file) => tree.has(file)).sort(), by, unknown };
  };
};
