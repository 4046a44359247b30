// Dashboards rely on metrics: they are listed on a page, named by one convention, and every panel
// and alert only uses metrics that exist.
// Reaches docs/: the alerts name its pages.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { openMetrics } from "../../infra/runtime/metrics.ts";
import { rules } from "../support/alert-world.ts";
import { EXPORTED } from "../support/exported-series.ts";

const metrics = openMetrics({ app: "test", version: "0", commit: "0" }).list();
const ours = metrics.filter(({ name }) => /^(tributary|kafka)_/.test(name));

interface Panel {
  readonly type: string;
  readonly title: string;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}
const dashboard: { readonly panels: readonly Panel[] } = JSON.parse(readFileSync("ops/grafana/tributary.json", "utf8"));
const queries = [
  ...rules.map(({ alert, expr, annotations }) => ({
    of: `the alert ${alert}`,
    expr,
    shown: [...annotations.summary.matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label!),
  })),
  ...dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr, legendFormat }) => ({
      of: `the panel ${title}`,
      expr,
      shown: [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label!),
    })),
  ),
];

// Labels that a scrape and a histogram add.
const ALWAYS = ["app", "process", "instance", "job", "le"];
const series = new Map<string, readonly string[]>([["up", []]]);
for (const { name, type, labels } of metrics)
  for (const suffix of type === "histogram" ? ["_bucket", "_sum", "_count"] : [""]) series.set(name + suffix, labels);
for (const { name } of Object.values(EXPORTED).flat()) series.set(name, []);

/** A query without its groupings, selectors and ranges. */
const bare = (expr: string): string => expr.replace(/\b(by|without|on|ignoring)\s*\([^)]*\)|\{[^}]*\}|\[[^\]]*\]/g, "");
/** Every word that is neither a function nor an operator. */
const namesIn = (expr: string): readonly string[] =>
  [...bare(expr).matchAll(/\b[a-zA-Z]\w*\b(?!\s*\()/g)]
    .map(([word]) => word)
    .filter((word) => !/^(or|and|unless|bool)$/.test(word));
const labelsIn = (expr: string): readonly string[] => [
  ...[...expr.matchAll(/\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g)].flatMap(([, list]) =>
    list!.split(",").flatMap((one) => one.trim() || []),
  ),
  ...[...expr.matchAll(/\{([^}]*)\}/g)].flatMap(([, list]) =>
    [...list!.matchAll(/(\w+)\s*[=!]/g)].map(([, label]) => label!),
  ),
];

describe("the list of metrics", () => {
  test("is the recorded one", () => {
    const page = readFileSync("docs/metrics.md", "utf8");
    const rows = ours.map(
      ({ name, type, labels, help }) =>
        `| \`${name}\` | ${type} | ${labels.map((label) => `\`${label}\``).join(" ")} | ${help} |`,
    );
    const recorded = page.split("\n").filter((line) => line.startsWith("| `"));
    expect(
      recorded,
      "run: node scripts/run.mjs apps/cli/generate/metrics-page.js, and tell operators in CHANGELOG.md",
    ).toEqual(rows);
  });

  test("has the prefix, base units and the names that people graph already", () => {
    for (const { name, type } of ours) {
      if (name.startsWith("kafka_")) continue;
      expect(name).toMatch(/^tributary_[a-z]+(_[a-z]+)*$/);
      if (type === "counter") expect(name).toMatch(/_total$/);
      else expect(name).not.toMatch(/_total$/);
      if (type === "histogram") expect(name).toMatch(/_(seconds|bytes)$/);
      expect(name).not.toMatch(/_(ms|millis|milliseconds|kb|mb|percent)(_|$)/);
    }
    const labels = (name: string) => metrics.find((metric) => metric.name === name)?.labels;
    expect(labels("kafka_consumergroup_group_lag")).toEqual(["group", "topic", "partition"]);
    expect(labels("kafka_consumergroup_group_lag_seconds")).toEqual(["group", "topic", "partition"]);
    expect(labels("tributary_build_info")).toEqual(["version", "commit", "node"]);
    expect(labels("tributary_event_age_seconds")).toEqual(["sink"]);
  });

  test("has no label that could hold an id, a mail or a URL", () => {
    const open = /(^|_)(id|ip|url|path|email|mail|token|key|user|client|partner|message|error)$/;
    expect(ours.flatMap(({ labels }) => labels).filter((label) => open.test(label))).toEqual([]);
  });
});

describe("dashboards and alerts", () => {
  test.each(queries)("$of asks for metrics that exist: $expr", ({ expr }) => {
    const asked = namesIn(expr);
    expect(asked.length).toBeGreaterThan(0);
    expect(asked.filter((name) => !series.has(name))).toEqual([]);
  });

  test.each(queries)("$of uses labels that its metrics have: $expr", ({ expr, shown }) => {
    const known = new Set([...ALWAYS, ...namesIn(expr).flatMap((name) => series.get(name) ?? [])]);
    expect([...labelsIn(expr), ...shown].filter((label) => !known.has(label))).toEqual([]);
  });

  test("a name that does not exist is found out", () => {
    expect(namesIn('sum by (le) (rate(tributary_gone_total{a="b"}[5m])) - max(up)')).toEqual([
      "tributary_gone_total",
      "up",
    ]);
    expect(labelsIn('sum by (le, x) (rate(a_total{b="c", d!="e"}[5m]))')).toEqual(["le", "x", "b", "d"]);
  });

  test("brackets are balanced in every query", () => {
    for (const { expr } of queries)
      for (const [open, close] of ["()", "{}", "[]"])
        expect(expr.split(open!).length, expr).toBe(expr.split(close!).length);
  });

  test("every metric of ours is on the dashboard", () => {
    const shown = new Set(queries.flatMap(({ expr }) => namesIn(expr)));
    const hidden = ours
      .filter(({ name }) => ![name, `${name}_bucket`].some((one) => shown.has(one)))
      .map(({ name }) => name);
    expect(hidden).toEqual([]);
  });

  test("each alert names a page that exists, and no two alerts bear one name", () => {
    for (const { alert, annotations } of rules) {
      const [file, anchor] = annotations.runbook_url.replace("{{ $externalLabels.docs }}/", "").split("#");
      const headings = readFileSync(file!, "utf8").match(/^#+ .*$/gm) ?? [];
      const anchors = headings.map((line) =>
        line
          .replace(/^#+ /, "")
          .toLowerCase()
          .replace(/[^\w\- ]/g, "")
          .replaceAll(" ", "-"),
      );
      expect(anchors, alert).toContain(anchor);
    }
    expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
  });
});

test("no row and no panel of the dashboard is there twice, and what money does has a row", () => {
  const rows = dashboard.panels.filter(({ type }) => type === "row").map(({ title }) => title);
  expect(rows).toEqual([...new Set(rows)]);
  expect(rows).toContain("Money");
  const asked = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  expect(asked).toEqual([...new Set(asked)]);
});
