// Writes docs/metrics.md from the metrics that infra/runtime/metrics.ts declares. With --check it
// only says whether the page is current.
import { readFileSync, writeFileSync } from "node:fs";
import { openMetrics } from "../../../infra/runtime/metrics.ts";

const file = "docs/metrics.md";
// The metrics of the process come from the library and differ by platform.
const isOurs = (name: string): boolean => name.startsWith("tributary_") || name.startsWith("kafka_");

const rows = openMetrics({ app: "", version: "", commit: "" })
  .list()
  .filter(({ name }) => isOurs(name))
  .map(
    ({ name, type, labels, help }) =>
      `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(" ")} | ${help} |`,
  );
const text = [
  "# Metrics",
  "",
  "Every app serves these as `/metrics` on its side port (`OPS_PORT`), with those of Node's process (`process_*`,",
  "`nodejs_*`). All have the label `app` too. The changelog names every removed name or label.",
  "[operate.md](operate.md#metrics-and-alerts) says which to watch.",
  "",
  "**Unknown is not zero.** A gauge whose source cannot be read is absent, and `tributary_figure_known` of that figure",
  "is 0; the alert `FigureUnknown` watches it. No gauge is there before it was measured. Counters and histograms are",
  "the other way round: every label set that an app may report is there with 0 from its start, since Prometheus sees",
  "no increase between nothing and the first fault. Only codes of refused events and reasons of drops come with their",
  "first event: no rule counts them ([why](decisions/0082-unknown-figures-are-absent.md)).",
  "",
  "| name | type | labels | what it is |",
  "|---|---|---|---|",
  ...rows,
  "",
  "Written by: `node scripts/run.mjs apps/cli/generate/metrics-page.js`; a test compares.",
  "",
].join("\n");

if (!process.argv.includes("--check")) writeFileSync(file, text);
else if (readFileSync(file, "utf8") !== text) {
  console.error(
    `${file} is not what infra/runtime/metrics.ts declares; run: node scripts/run.mjs ` +
      "apps/cli/generate/metrics-page.js",
  );
  process.exitCode = 1;
}
