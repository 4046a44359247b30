// Checks rules of form that no linter knows: columns, words, names, folder sizes, private paths,
// subjects of commits, cited paths that do not exist, and line counts that pages claim. Exceptions
// are listed in scripts/lints.allowed. Usage: node scripts/lints.mjs [--lower]
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { limitsIn, lowered, placesOf, tooHigh, tooMany } from "./house/limits.mjs";
import { productFiles, workingTree } from "./house/sources.mjs";
import { isLong, MOST_COLUMNS, subjectsSince } from "./house/subjects.mjs";

const files = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => /\.(ts|mjs|md)$/.test(file) && existsSync(file) && !file.startsWith("bench/results/"));
const isCode = (file) => /\.(ts|mjs)$/.test(file);
const linesOf = new Map(files.map((file) => [file, readFileSync(file, "utf8").split("\n")]));

/** Lines of the form `<rule> <path>[: <word>] # why`. */
const allowed = new Set(
  readFileSync("scripts/lints.allowed", "utf8")
    .split("\n")
    .map((line) => line.replace(/\s*#.*/, "").trim())
    .filter((line) => line !== ""),
);
const found = [];
const say = (rule, file, line, what) => {
  if (!allowed.has(`${rule} ${file}`) && !allowed.has(`${rule} ${file}: ${what}`))
    found.push(`${rule}: ${file}${line === undefined ? "" : `:${line}`} ${what}`);
};

const CODE_COLUMNS = 120;
const COMMENT_COLUMNS = 100;
const isComment = (line) => /^\s*(\/\/|\*|\/\*)/.test(line);
for (const [file, lines] of linesOf)
  if (isCode(file))
    for (const [n, line] of lines.entries()) {
      const most = isComment(line) && !/biome-ignore|@ts-expect-error/.test(line) ? COMMENT_COLUMNS : CODE_COLUMNS;
      if (line.length > most) say("columns", file, n + 1, `${line.length} of ${most}`);
    }

/** Words of our old dialect, with the words of the field (docs/design/architecture.md, "Words"). */
const dialect = [
  [/\bwhoever\b/i, "whoever", "the process that, who"],
  [/\banew\b/i, "anew", "again"],
  [/\b(is|are|was|were|be|been) told\b/i, "is told", "is reported, is configured"],
  [/\bnobody who\b/i, "nobody who", "no process that"],
  [/\bshould (it|they) \w+/i, "should it", "if it"],
  [/^(?!.*(const|let|[.[(])\s*told\b).*\btold\b/i, "told", "reported, said, configured"],
  [/\bnobody\b/i, "nobody", "no process, no sender, none"],
  [/\bwhat is young\b/i, "what is young", "the young generation"],
  [/\bhow many-th\b/i, "the how many-th", "sequence number"],
  [/\bin turn of\b/i, "in turn of", "in the order of"],
];
for (const [file, lines] of linesOf) {
  if (file === "scripts/lints.mjs") continue;
  for (const [n, line] of lines.entries())
    for (const [pattern, word, better] of dialect)
      if (pattern.test(line) && !allowed.has(`words ${file}: ${word}`))
        say("words", file, n + 1, `${word} (write: ${better})`);
}

const MOST_FILES = 15;
const sizes = new Map();
for (const file of files)
  if (file.endsWith(".ts") && !file.startsWith("tests/")) sizes.set(dirname(file), (sizes.get(dirname(file)) ?? 0) + 1);
for (const [folder, count] of sizes)
  if (count > MOST_FILES) say("folders", folder, undefined, `holds ${count} files, at most ${MOST_FILES}`);

/** Paths that exist on one person's machine only. */
const PRIVATE = /(^|[\s"'`(=])\/(home|root|Users|work|mnt)\/[\w.-]+/;
for (const [file, lines] of linesOf)
  for (const [n, line] of lines.entries())
    if (PRIVATE.test(line)) say("private-path", file, n + 1, line.trim().slice(0, 80));

/**
 * Paths that comments and pages cite must exist. The fence of a recipe names files that it creates.
 */
const TOP =
  "apps|bench|browser|docs|domain|examples|infra|migrations|modules|ops|processors|schemas|scripts|sinks|stream|" +
  "tests|tools";
const CITED = new RegExp(`(?<![\\w./-])((?:${TOP})\\/[\\w./-]*\\w\\.(?:ts|mjs|md|sql|yaml|yml|avsc))\\b`, "g");
for (const [file, lines] of linesOf)
  for (const [n, line] of lines.entries())
    if ((!isCode(file) || isComment(line)) && !line.startsWith("```") && file !== "CHANGELOG.md")
      for (const [, path] of line.matchAll(CITED)) if (!existsSync(path)) say("cited-path", file, n + 1, path);

/** Names from before the rule. When one disappears, the list must be lowered. */
const NAMES = "scripts/lints.names";
const tree = workingTree();
const places = placesOf(tree, productFiles(tree));
if (process.argv.includes("--lower")) writeFileSync(NAMES, lowered(limitsIn(readFileSync(NAMES, "utf8")), places));
const limits = limitsIn(readFileSync(NAMES, "utf8"));
for (const line of tooMany(limits, places)) found.push(`names: ${line}; name it by a noun, e.g. Request, Match`);
for (const line of tooHigh(limits, places))
  found.push(`names: ${NAMES} allows ${line}; lower it: node scripts/lints.mjs --lower`);

/** A commit cannot be changed, so a long subject becomes an exception, `subject <hash>`. */
for (const { hash, subject } of subjectsSince() ?? [])
  if (isLong(subject)) say("subject", hash, undefined, `${subject.length} of ${MOST_COLUMNS} columns: ${subject}`);

/**
 * A line count that a page claims for a file or folder, `path` (120 lines). It must be right within
 * a tenth.
 */
const COST = /`((?:[\w.-]+\/)+[\w.-]*)`\s+\(([\d,]+) lines/g;
const lengthOf = (path) =>
  [...linesOf].reduce(
    (sum, [file, lines]) =>
      sum + (file === path || (path.endsWith("/") && file.startsWith(path)) ? lines.length - 1 : 0),
    0,
  );
for (const [file, lines] of linesOf)
  if (file.endsWith(".md") && file !== "CHANGELOG.md")
    for (const [, path, claim] of lines.join("\n").matchAll(COST)) {
      const claimed = Number(claim.replaceAll(",", ""));
      const length = lengthOf(path);
      if (Math.abs(length - claimed) > claimed / 10) say("costs", file, undefined, `${path} has ${length} lines`);
    }

for (const line of found) console.error(line);
if (found.length > 0) console.error(`${found.length} places; exceptions with a reason go into scripts/lints.allowed`);
process.exit(found.length > 0 ? 1 : 0);
