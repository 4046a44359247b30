// `npm run describe`: draws the pipeline into README.md between its markers; with --check says
// whether the drawing is still true.
import { readFileSync, writeFileSync } from "node:fs";
import { draw } from "../../../stream/topology.ts";
import { pipeline } from "../../../topology.ts";

const file = "README.md";
const fence = /(<!-- diagram: npm run describe -->\n)[\s\S]*?(<!-- end of diagram -->)/;
const before = readFileSync(file, "utf8");
if (!fence.test(before))
  throw new Error(`${file} has no <!-- diagram: npm run describe --> ... <!-- end of diagram --> to draw between`);
const drawing = `\`\`\`mermaid\n${draw(pipeline)}\`\`\`\n`;
const after = before.replace(fence, (_, start, end) => `${start}${drawing}${end}`);
if (!process.argv.includes("--check")) {
  writeFileSync(file, after);
  process.stdout.write(drawing);
} else if (after !== before) {
  process.stderr.write(`the diagram in ${file} is not the pipeline of topology.ts; run: npm run describe\n`);
  process.exitCode = 1;
}
