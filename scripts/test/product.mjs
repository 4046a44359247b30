// The processes of the product as tests start and ask them: apps by their names, the installation
// that files join, and commands of the command line.
import { dirname, posix } from "node:path";

export const APPS = "modules/running/installation/product.ts";
export const CLI = "apps/cli/main.ts";
const COMMANDS = "apps/cli/commands.ts";
/** They start the apps that others name. */
export const STARTERS = [
  "tools/chaos/stage/stage.ts",
  "tests/support/e2e-product.ts",
  "tests/support/start-product.ts",
  "tests/support/armed-app.ts",
];
/** They run an installation with all apps, or the files do that join it. */
const INSTALLATIONS = ["tests/support/joined-product.ts", "tools/chaos/stage/stage.ts"];
const HANDLERS = "apps/api/routes/";
const ROUTES = "apps/api/routes.ts";
const ALL = "*";
/** They load files by their names; each with the one importer that leaves it at that. */
export const LOADS_LATER = new Map([
  [COMMANDS, CLI],
  [ROUTES, "apps/api/api.ts"],
  ["apps/api/api.ts", "apps/api/main.ts"],
]);

/** The apps of the product by their names: the source that each one starts. */
export const appsIn = (tree) => {
  const rows = (tree.get(APPS) ?? "").matchAll(/name: "([\w-]+)",\s+module: "([\w/]+)\.js"/g);
  return new Map([...rows].map(([, name, module]) => [name, `${module}.ts`]));
};

/** Their sources by names, or by the beginning of their path; another word stands for all. */
export const startedBy = (apps, names) =>
  names.flatMap((name) => {
    const named = [...apps].filter(([app, module]) => app === name || module.startsWith(name));
    return (named.length > 0 ? named : [...apps]).map(([, module]) => module);
  });

/** The files of apps/cli/commands.ts, each with the names of its commands. */
export const commandsIn = (tree) =>
  (tree.get(COMMANDS) ?? "")
    .split("load: async")
    .slice(1)
    .map((text) => ({
      file: posix.join(dirname(COMMANDS), /import\("([^"]+)"\)/.exec(text)[1]),
      names: [...text.matchAll(/([\w-]+)"?: known\(/g)].map(([, name]) => name),
    }));

/** Handlers of the platform API, each with the first words of its paths, e.g. "partners". */
export const handlersIn = (tree) =>
  [...tree].flatMap(([file, text]) => {
    if (!file.startsWith(HANDLERS)) return [];
    const contracts = [...text.matchAll(/from "(\.[^"]*\/contract\/[^"]+)"/g)].map(([, path]) =>
      posix.join(file, "..", path),
    );
    const routes = contracts.map((contract) => tree.get(contract) ?? "").join("");
    return [{ file, words: [...routes.matchAll(/route: "[A-Z]+ \/api\/([\w-]+)/g)].map(([, word]) => word) }];
  });

/**
 * Sources that type commands and ask apps; what all tests share asks none by itself, and the laws
 * of tools/chaos cite tests.
 */
const isCaller = (file) =>
  /^(tests|tools|bench)\/.*\.(ts|mjs)$/.test(file) && ![...INSTALLATIONS, ...STARTERS].includes(file);
const API = /(?<!\b(?:tests|apps))\/api\b/;
/** It names the platform API, or goes through all apps. */
const NAMES_API = new RegExp(
  `\\bapps[!?]*\\.api\\b|\\bapi["'\`]|${API.source}|Object\\.\\w+\\([^)]*\\bapps\\b|\\bof apps\\b`,
);
const ASKED = new RegExp(`${API.source}(?:/([\\w-]+))?`, "g");

/**
 * Sources that those of a reach name together, each with the one that runs it: the apps that an
 * installation has, handlers of paths that are asked, and commands that are typed.
 */
export const namedTogether = (tree) => {
  const apps = appsIn(tree);
  const handlers = handlersIn(tree);
  const commands = commandsIn(tree).map(({ file, names }) => ({
    file,
    typed: new RegExp(`(["'\`]|tributary )(${names.join("|")})(?=["'\`\\s])`),
  }));
  const lookAt = (file) => {
    const text = tree.get(file);
    const typed = commands.flatMap((command) => (command.typed.test(text) ? [command.file] : []));
    const asked = [...text.matchAll(ASKED)].map(([, word]) => word ?? ALL);
    return { namesApi: NAMES_API.test(text), typed, asked };
  };
  const looks = new Map();
  const lookOnce = (file) => {
    if (!looks.has(file)) looks.set(file, lookAt(file));
    return looks.get(file);
  };
  /** `inside` are those of `LOADS_LATER` that tests go through themselves. */
  return (by, read, inside) => {
    const callers = [...by.keys()].filter(isCaller).map(lookOnce);
    const readsPages = [...by, ...read].some(([file, from]) => file.endsWith(".md") && from !== null && isCaller(from));
    const named = [];
    const add = (from, files) => {
      if (by.has(from)) for (const file of files) named.push([file, from]);
    };
    const asked = new Set(
      [...by.keys()]
        .filter((file) => isCaller(file) || file.startsWith("modules/"))
        .flatMap((file) => lookOnce(file).asked),
    );
    const goesThrough = (file) => inside.has(file) || readsPages;
    const answers = ({ words }) => words.length === 0 || words.some((word) => asked.has(word));
    for (const installation of INSTALLATIONS)
      add(
        installation,
        [...apps]
          .filter(([app]) => app !== "api" || callers.some(({ namesApi }) => namesApi))
          .map(([, module]) => module),
      );
    add(
      ROUTES,
      handlers.filter((handler) => goesThrough(ROUTES) || asked.has(ALL) || answers(handler)).map(({ file }) => file),
    );
    add(COMMANDS, goesThrough(COMMANDS) ? commands.map(({ file }) => file) : callers.flatMap(({ typed }) => typed));
    return named;
  };
};
