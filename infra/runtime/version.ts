// The version of this installation in package.json, the commit that it was built from, and the
// place of its other files.
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Searched upwards, because compiled code is one folder deeper than its source. */
export const versionOf = (from: string = import.meta.url): string => {
  for (let folder = new URL(".", from); ; folder = new URL("..", folder)) {
    try {
      const found = JSON.parse(readFileSync(new URL("package.json", folder), "utf8")) as {
        name?: string;
        version?: string;
      };
      if (found.name === "tributary" && found.version !== undefined) return found.version;
    } catch {
      // not here
    }
    if (folder.pathname === "/") return "unknown";
  }
};

const textIn = (folder: URL, name: string): string | undefined => {
  try {
    return readFileSync(new URL(name, folder), "utf8").trim();
  } catch {
    return undefined;
  }
};

/**
 * The commit that an image has written to `COMMIT`, else the one that is checked out, else
 * "unknown".
 */
export const commitOf = (from: string = import.meta.url): string => {
  for (let folder = new URL(".", from); ; folder = new URL("..", folder)) {
    const head = textIn(folder, ".git/HEAD");
    const branch = head?.startsWith("ref: ") ? head.slice(5) : undefined;
    const packed =
      branch && new RegExp(`^([0-9a-f]{40}) ${branch}$`, "m").exec(textIn(folder, ".git/packed-refs") ?? "")?.[1];
    const found =
      textIn(folder, "COMMIT") || (branch === undefined ? head : (textIn(folder, `.git/${branch}`) ?? packed));
    if (found) return found;
    if (folder.pathname === "/") return "unknown";
  }
};

/** The path of a file in the folder of package.json. Throws if no folder above has one. */
export const installedFile = (name: string): string => {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return join(folder, name);
    if (folder === dirname(folder)) throw new Error(`no package.json lies above ${name}`);
  }
};
