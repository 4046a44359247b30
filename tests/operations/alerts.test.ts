// Every alert rule, judged by promtool: it fires at the first fault of an installation that has
// just started, and is silent while that idles and while it reads the log again. The series are
// those of our own registries.
// Reaches docs/: the alerts name its pages.
// Reaches processors/: the reasons of rejections are read in its sources.
// Reaches apps/ingest/: its edges are listed.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { rejectReasons } from "../../apps/worker/series.ts";
import { sinksBehind } from "../../modules/log/groups/read-again.ts";
import { readersOf } from "../../stream/topology.ts";
import { pipeline } from "../../topology.ts";
import { faults } from "../support/alert-faults.ts";
import { quietMinute, stage, started, write } from "../support/alert-installation.ts";
import { rules } from "../support/alert-world.ts";

describe("from a cold start", () => {
  test.each(faults.map((one) => [one.alert, one] as const))("%s fires at the first fault", async (_, one) => {
    const installation = started();
    const { world } = installation;
    await world.pass(20);
    world.firing();
    for (let passed = 0; passed < one.within; passed += 10) {
      if (passed === 0 || one.lasting) one.fault(installation);
      await world.pass(10);
    }
    world.alarm(one);
    world.firing(...[one.alert, ...(one.with ?? [])].toSorted());
    expect(world.judge()).toBe("");
  });

  test("every rule has such a fault", () => {
    expect([...new Set(faults.map(({ alert }) => alert))].toSorted()).toEqual(
      rules.map(({ alert }) => alert).toSorted(),
    );
  });

  test.each([...new Set(Object.values(rejectReasons).flat())])(
    "the first letter of settle for %s is seen",
    async (reason) => {
      const { world, money } = started();
      await world.pass(20);
      stage(money, { rejected: new Map([[reason, 1]]) });
      await world.pass(10);
      world.firing("DeadLetters");
      expect(world.judge()).toBe("");
    },
  );

  test("one restart of a store is no alarm", async () => {
    const { world, keeper } = started();
    await world.pass(20);
    keeper.countRestart("cache_store");
    await world.pass(3_600);
    world.firing();
    expect(world.judge()).toBe("");
  });
});

test("no alarm fires while an installation idles for ten minutes", async () => {
  const { world } = started();
  for (let minute = 0; minute < 10; minute++) {
    await world.pass(60);
    world.firing();
  }
  expect(world.judge()).toBe("");
});

test("no alarm fires through a quiet night with a visitor a minute", async () => {
  const installation = started();
  const { world } = installation;
  for (let minute = 0; minute < 8 * 60; minute++) {
    quietMinute(installation);
    await world.pass(60);
    world.firing();
  }
  expect(world.judge()).toBe("");
});

/** Sinks that get what was written before, when these readers are set back. */
const rewound = async (nodes: readonly string[], sinks: readonly string[]): Promise<string> => {
  const installation = started();
  const { world, keeper, money } = installation;
  await world.pass(60);
  keeper.setReadAgain(sinksBehind(pipeline, new Set(nodes)));
  for (let minute = 0; minute < 20; minute++) {
    quietMinute(installation);
    for (const sink of sinks) write(money, sink, 5 * 3_600);
    await world.pass(60);
    world.firing();
  }
  keeper.setReadAgain(sinksBehind(pipeline, new Set()));
  for (let minute = 0; minute < 30; minute++) {
    quietMinute(installation);
    await world.pass(60);
    world.firing();
  }
  return world.judge();
};

test.each([
  ["a sink", ["analytics"], ["analytics"]],
  ["the first stage", ["enrich"], ["analytics", "conversions", "ledger", "identity"]],
])("no alarm fires while %s is rewound by hours, nor after it", async (_, nodes, sinks) =>
  expect(await rewound(nodes, sinks)).toBe(""),
);

test("late events of a sink that is not rewound fire beside a rewind of another", async () => {
  const { world, keeper, money } = started();
  keeper.setReadAgain(sinksBehind(pipeline, new Set(["ledger"])));
  for (let step = 0; step < 36; step++) {
    write(money, "ledger", 3_600);
    write(money, "analytics", 20);
    await world.pass(10);
  }
  world.firing("EventsLate");
  expect(world.judge()).toBe("");
});

describe("each rule", () => {
  test.each(rules)("$alert names an app, tells its effect, and links to an address", ({ annotations }) => {
    expect(annotations.summary).toMatch(/^\{\{ \$labels\.(app|process|job) \}\}/);
    expect(annotations.effect).toMatch(/^[A-Z][^{}]{20,}[^.]$/);
    expect(annotations.runbook_url).toMatch(/^\{\{ \$externalLabels\.docs \}\}\/docs\/[\w/-]+\.md#[\w-]+$/);
  });

  test("the label of the address is set where Prometheus is started, and leads somewhere", () => {
    const prometheus = readFileSync("ops/prometheus/prometheus.yml", "utf8");
    // biome-ignore lint/suspicious/noTemplateCurlyInString: Prometheus fills it in.
    expect(prometheus).toContain("docs: ${DOCS_URL}");
    expect(readFileSync("docker-compose.yml", "utf8")).toMatch(
      /DOCS_URL: \$\{DOCS_URL:-http:\/\/127\.0\.0\.1:.*\/user\}/,
    );
    expect(readFileSync("docs/operate.md", "utf8")).toContain("external_labels: {docs:");
  });
});

test("sinks whose events are late by design are left out of EventsLate, and no other", () => {
  const slow = readersOf(pipeline).flatMap((node) =>
    node.is === "sink" && node.into.store === "objects" ? [node.name] : [],
  );
  const { expr } = rules.find(({ alert }) => alert === "EventsLate")!;
  expect([...expr.matchAll(/sink!="([^"]+)"/g)].map(([, sink]) => sink)).toEqual(slow);
});

test("the reasons for which stages reject are those of their sources", () => {
  const found = readersOf(pipeline).flatMap(({ is, name }) => {
    if (is !== "stage") return [];
    const folder = join("processors", name);
    const text = readdirSync(folder, { recursive: true, encoding: "utf8" })
      .filter((file) => file.endsWith(".ts"))
      .map((file) => readFileSync(join(folder, file), "utf8"))
      .join("\n");
    const reasons = [...text.matchAll(/\breject\("(\w+)"\)|\breason: "(\w*conflict)"/g)].map(([, a, b]) => a ?? b!);
    return reasons.length === 0 ? [] : [[name, [...new Set(reasons)].toSorted()] as const];
  });
  const known = Object.entries(rejectReasons).map(([name, reasons]) => [name, reasons.toSorted()]);
  expect(found).toEqual(known);
});
