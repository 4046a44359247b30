// The processes of the product that tests start: its apps, and commands of the command line.
import { dirname, posix } from "node:path";

export const APPS = "modules/running/installation/product.ts";
export const CLI = "apps/cli/main.ts";
export const COMMANDS = "apps/cli/commands.ts";

/** The sources of the apps of the product. */
export const appsIn = (tree) =>
  [...(tree.get(APPS) ?? "").matchAll(/module: "([\w/]+)\.js"/g)].map(([, module]) => `${module}.ts`);

/** The files of apps/cli/commands.ts, each with the names of its commands. */
export const commandsIn = (tree) =>
  (tree.get(COMMANDS) ?? "")
    .split("load: async")
    .slice(1)
    .map((text) => ({
      file: posix.join(dirname(COMMANDS), /import\("([^"]+)"\)/.exec(text)[1]),
      names: [...text.matchAll(/([\w-]+)"?: known\(/g)].map(([, name]) => name),
    }));

/** `typed(text)`: the files of the commands that it types ("explain", `tributary explain`). */
export const typingOf = (commands) => {
  const patterns = commands.map(({ file, names }) => ({
    file,
    typed: new RegExp(`(["'\`]|tributary )(${names.join("|")})(?=["'\`\\s])`),
  }));
  return (text) => patterns.filter(({ typed }) => typed.test(text)).map(({ file }) => file);
};
