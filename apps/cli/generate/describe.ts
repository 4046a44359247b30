// `npm run describe`: writes what follows from topology.ts and from the hosting of the product
// between the markers of some files. With --check it names the files that are out of date.
import { readFileSync, writeFileSync } from "node:fs";
import { servicesOf } from "../../../modules/running/installation/compose.ts";
import { apps, workerLines } from "../../../modules/running/installation/product.ts";
import { filledWith } from "../../../modules/running/state-hash/sink-tables.ts";
import { writesRows } from "../../../stream/flow.ts";
import { draw } from "../../../stream/topology.ts";
import { topicSettings } from "../../../topics.ts";
import { pipeline } from "../../../topology.ts";

const fenced = (kind: string, text: string): string => `\`\`\`${kind}\n${text.trimEnd()}\n\`\`\``;
const DAY_MS = 86_400_000;
const daysOf = (topic: string): string => {
  const { retentionMs } = topicSettings.find(({ name }) => name === topic)!;
  return retentionMs < 0 ? "for good" : `${retentionMs / DAY_MS} days`;
};
const sinks = pipeline.nodes.flatMap((node) => (node.is === "sink" && writesRows(node) ? [node] : []));
/** The rows of tables that a replay of each topic brings back. */
const replayed = [...new Set(sinks.map(({ from }) => from.name))].map((topic) => {
  const tables = sinks.filter(({ from }) => from.name === topic).flatMap(({ into }) => filledWith(into));
  return `| \`${topic}\` | ${daysOf(topic)} | ${tables.map((table) => `\`${table}\``).join(", ")} |`;
});
const regions = [
  { file: "README.md", name: "diagram", text: fenced("mermaid", draw(pipeline)) },
  { file: "docs/operate.md", name: "hosting", text: fenced("", workerLines.join("\n")) },
  {
    file: "docs/runbooks/replay-of-a-day.md",
    name: "tables",
    text: ["| topic | keeps | brings back |", "|---|---|---|", ...replayed].join("\n"),
  },
  { file: "docker-compose.yml", name: "apps", text: servicesOf(apps) },
];

for (const { file, name, text } of regions) {
  const before = readFileSync(file, "utf8");
  const between = new RegExp(`(^.*\\b${name}: npm run describe\\b.*\\n)[\\s\\S]*?(^.*\\bend of ${name}\\b.*$)`, "m");
  if (!between.test(before)) throw new Error(`${file} has no lines "${name}: npm run describe" and "end of ${name}"`);
  const after = before.replace(between, (_, start: string, end: string) => `${start}${text}\n${end}`);
  if (!process.argv.includes("--check")) writeFileSync(file, after);
  else if (after !== before) {
    process.stderr.write(`${file} does not match topology.ts and the hosting of the product; run: npm run describe\n`);
    process.exitCode = 1;
  }
}
