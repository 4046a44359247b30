// apps/version.ts - the version of this installation, as package.json has it.
import { readFileSync } from "node:fs";

/** Found upwards, because compiled code lies one folder deeper than its source. */
export const versionOf = (from: string = import.meta.url): string => {
  for (let folder = new URL(".", from); ; folder = new URL("..", folder)) {
    try {
      const found = JSON.parse(readFileSync(new URL("package.json", folder), "utf8")) as { name?: string; version?: string };
      if (found.name === "tributary" && found.version !== undefined) return found.version;
    } catch {
      // not here
    }
    if (folder.pathname === "/") return "unknown";
  }
};
