// Counts the files that one purchase walks. The pipeline in memory (tests/support/shop.ts) gets a
// click and then a sale of its partner, and V8 records the functions that the sale calls, from its
// admission to the rows of every sink.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { transformSync } from "esbuild";
import { loadedBy } from "./imports.mjs";
import { productFiles } from "./sources.mjs";

const SHOP = "tests/support/shop.ts";
/** The target of `#failpoint` in package.json. */
const FAILPOINT = "stream/failpoint.ts";

const SALE = `
import { Session } from "node:inspector/promises";
import { click, clickBefore, purchase, shop } from "./tests/support/shop.js";
import { pipeline } from "./topology.js";
const HOUR = 3_600_000;
const { post, rows, entries } = shop();
const clicked = clickBefore(HOUR);
const sale = purchase({ svc_click_id: clicked });
await post([click(clicked, { ts: sale.ts - HOUR })]);
const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
await post([sale]);
for (const { is, name } of pipeline.nodes) if (is === "sink") rows(name);
const { result } = await session.post("Profiler.takePreciseCoverage");
const isCalled = ({ ranges }) => ranges.some(({ count }) => count > 0);
const called = result.filter(({ functions }) => functions.some(isCalled)).map(({ url }) => url);
console.log(JSON.stringify({ entries: entries().length, called }));
`;

const compiled = (text) =>
  transformSync(text, { loader: "ts", format: "esm", target: "node20" }).code.replaceAll(
    /((?:from|import) ?\(?)"(\.[^"]+)\.ts"/g,
    '$1"$2.js"',
  );

/**
 * The product's files that the sale walks, sorted. An Error says why they could not be measured.
 */
export const walkedByPurchase = (tree) => {
  if (!tree.has(SHOP)) return new Error(`there is no ${SHOP}`);
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "tributary-house-")));
  try {
    for (const file of loadedBy(tree, [SHOP, FAILPOINT])) {
      mkdirSync(join(folder, dirname(file)), { recursive: true });
      writeFileSync(join(folder, file.replace(/\.ts$/, ".js")), compiled(tree.get(file)));
    }
    const imports = { "#failpoint": `./${FAILPOINT.replace(/\.ts$/, ".js")}` };
    writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module", imports }));
    symlinkSync(fileURLToPath(new URL("../../node_modules", import.meta.url)), join(folder, "node_modules"));
    writeFileSync(join(folder, "sale.js"), SALE);
    const { status, stdout, stderr } = spawnSync(process.execPath, ["sale.js"], { cwd: folder, encoding: "utf8" });
    if (status !== 0) return new Error(/\w*Error: .*/.exec(stderr)?.[0] ?? `node ended with ${status}`);
    const { entries, called } = JSON.parse(stdout);
    if (entries === 0) return new Error("the sale earned nothing");
    const own = new Set(called.map((url) => url.replace(`file://${folder}/`, "").replace(/\.js$/, ".ts")));
    return productFiles(tree)
      .filter((file) => own.has(file))
      .sort();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};
