// Prints measures of the sources, each with its value and its aim. Tests, benches and scripts are
// not counted. Usage: node scripts/house.mjs [--at <commit> | --against <commit>] [--names]
// [--json]
import { execFileSync } from "node:child_process";
import { parseArgs } from "node:util";
import { measuresOf } from "./house/measures.mjs";
import { treeOf, workingTree } from "./house/sources.mjs";
import { subjectsSince } from "./house/subjects.mjs";

const usage = `Usage: npm run house -- [options]
  --at <commit>       measures a commit instead of the working tree
  --against <commit>  measures it beside the working tree
  --names             lists what is behind each value
  --json              prints JSON`;

const { values } = parseArgs({
  options: {
    at: { type: "string" },
    against: { type: "string" },
    names: { type: "boolean" },
    json: { type: "boolean" },
    help: { type: "boolean" },
  },
});
if (values.help) {
  console.log(usage);
  process.exit(0);
}

const hashOf = (commit) => {
  try {
    return execFileSync("git", ["rev-parse", "--short=8", "--verify", `${commit}^{commit}`], {
      encoding: "utf8",
      stdio: "pipe",
    }).trim();
  } catch {
    console.error(`there is no commit ${commit} in this clone`);
    process.exit(1);
  }
};
const ofCommit = (commit) => {
  const hash = hashOf(commit);
  return { title: hash, measures: measuresOf(treeOf(hash), subjectsSince(hash)) };
};
const now = () => ({ title: "now", measures: measuresOf(workingTree(), subjectsSince()) });

const columns =
  values.at !== undefined
    ? [ofCommit(values.at)]
    : [...(values.against === undefined ? [] : [ofCommit(values.against)]), now()];

const inWords = ({ value, why }) => (value === null ? why : value.toLocaleString("en"));
const rows = columns.at(-1).measures.map((measure, n) => ({
  ...measure,
  texts: columns.map(({ measures }) => inWords(measures[n])),
}));

if (values.json) {
  const ofColumn = ({ title, measures }) => [
    title,
    measures.map(({ name, aim, value, why, items }) => ({ name, aim: aim.text, value, why, items })),
  ];
  console.log(JSON.stringify(Object.fromEntries(columns.map(ofColumn)), null, 2));
} else {
  const head = ["measure", ...columns.map(({ title }) => title), "aim", ""];
  const lines = rows.map(({ name, texts, aim, value }) => {
    const reached = value !== null && aim.text !== "fewer" && aim.holds(value) ? "reached" : "";
    return [name, ...texts, aim.text, reached];
  });
  const widths = head.map((_, n) => Math.max(...[head, ...lines].map((line) => line[n].length)));
  const print = (line) => {
    const isNumber = (n) => n > 0 && n <= columns.length;
    const cells = line.map((text, n) => (isNumber(n) ? text.padStart(widths[n]) : text.padEnd(widths[n])));
    console.log(cells.join("  ").trimEnd());
  };
  print(head);
  lines.forEach((line, n) => {
    print(line);
    if (values.names) for (const item of rows[n].items) console.log(`    ${item}`);
  });
}
