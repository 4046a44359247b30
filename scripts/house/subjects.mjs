// Subjects of commits: at most 72 columns, since the commit that made it a rule.
import { execFileSync, spawnSync } from "node:child_process";

/** Commits up to this one were written before the rule. */
export const FIRST = "0883a7dd";
export const MOST_COLUMNS = 72;

export const isLong = (subject) => [...subject].length > MOST_COLUMNS;

/**
 * `{hash, subject}` of the commits up to `commit` that came after FIRST; null where FIRST is not
 * there, as in a shallow clone.
 */
export const subjectsSince = (commit = "HEAD") => {
  const isThere = spawnSync("git", ["cat-file", "-e", `${FIRST}^{commit}`]).status === 0;
  if (!isThere) return null;
  return execFileSync("git", ["log", "--no-merges", "--format=%h %s", `${FIRST}..${commit}`], { encoding: "utf8" })
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => ({ hash: line.slice(0, line.indexOf(" ")), subject: line.slice(line.indexOf(" ") + 1) }));
};
