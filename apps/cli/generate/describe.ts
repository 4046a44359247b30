// `npm run describe`: writes what follows from topology.ts and from the hosting of the product
// between the markers of these files; with --check says which of them is not up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { servicesOf } from "../../../modules/running/installation/compose.ts";
import { apps, workerLines } from "../../../modules/running/installation/product.ts";
import { draw } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";

const fenced = (kind: string, text: string): string => `\`\`\`${kind}\n${text.trimEnd()}\n\`\`\``;
const regions = [
  { file: "README.md", name: "diagram", text: fenced("mermaid", draw(pipeline)) },
  { file: "docs/operate.md", name: "hosting", text: fenced("", workerLines.join("\n")) },
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
