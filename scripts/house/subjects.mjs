// Checks that subjects of commits have at most 72 columns, from the commit that introduced the rule
// on.
import { execFileSync, spawnSync } from "node:child_process";

/** The rule applies to commits after this one. */
export const FIRST = "0883a7dd";
export const MOST_COLUMNS = 72;

export const isLong = (subject) => [...subject].length > MOST_COLUMNS;

/**
 * `{hash, subject}` of the commits after FIRST, up to `commit`. Null if the clone does not contain
 * FIRST, e.g. a shallow one.
 */
export const subjectsSince = (commit = "HEAD") => {
  const isThere = spawnSync("git", ["cat-file", "-e", `${FIRST}^{commit}`]).status === 0;
  if (!isThere) return null;
  return execFileSync("git", ["log", "--no-merges", "--format=%h %s", `${FIRST}..${commit}`], { encoding: "utf8" })
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => ({ hash: line.slice(0, line.indexOf(" ")), subject: line.slice(line.indexOf(" ") + 1) }));
};
