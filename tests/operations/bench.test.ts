// The bench as a product: its help names every bench, and peers says what was compared and what was
// not.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { median } from "../../bench/figures.ts";
import { peerNamed } from "../../bench/load/peer.ts";
import { peersText } from "../../bench/peers.ts";

const folder = mkdtempSync(join(tmpdir(), "tributary-results-"));
afterAll(() => rmSync(folder, { recursive: true }));
const at = (path: string): string => new URL(`../../${path}`, import.meta.url).pathname;
const source = readFileSync(at("bench/main.ts"), "utf8");
const benches = [...source.slice(0, source.indexOf("const folders")).matchAll(/^ {2}(\w+):/gm)].map(
  ([, name]) => name!,
);

test("every bench that is listed has its file, and is named in the page of the bench", () => {
  expect(benches.length).toBeGreaterThan(10);
  const page = readFileSync(at("bench/README.md"), "utf8");
  for (const name of benches) {
    expect(
      ["", "edges/", "money/"].some((under) => existsSync(at(`bench/${under}${name}.ts`))),
      name,
    ).toBe(true);
    expect(page).toContain(`\`${name}\``);
  }
});

test("a kept result is the newest of its bench, or a page names it", () => {
  const files = readdirSync(at("bench/results")).sort();
  const newest = new Set(new Map(files.map((file) => [file.replace(/^[\dT-]+-/, ""), file])).values());
  const pages = ["performance", "scale"].map((page) => readFileSync(at(`docs/${page}.md`), "utf8")).join();
  expect(files.filter((file) => !newest.has(file) && !pages.includes(file))).toEqual([]);
});

test("every kept result says on which processor, under which load and from which commit it is", () => {
  for (const file of readdirSync(at("bench/results"))) {
    const { commit, machine, cpu, load } = JSON.parse(readFileSync(at(`bench/results/${file}`), "utf8"));
    // The first results have figures of processes under the name of the processor.
    expect([typeof commit, typeof (machine ?? cpu), typeof load], file).toEqual([
      "string",
      expect.stringMatching(/string|object/),
      "number",
    ]);
  }
});

const run = (who: string, batch: number, eventsPerSecond: number) => ({
  ...{ who, batch, eventsPerSecond, edgeUs: 14, brokerUs: 5, generatorUs: 1 },
  ...{ p50Ms: 40, p99Ms: 70, rssMiB: 300, refusedBodies: 0 },
});
const kept = (name: string, runs: readonly object[]): void => {
  const result = { commit: "abc1234", machine: "2 x CPU", node: "v20", load_before: 0.2, load: 2.5, seconds: 20, runs };
  writeFileSync(join(folder, name), JSON.stringify(result));
};

test("of two runs the median lies between them, so a rate is not that of the better one", () => {
  expect(median([90, 80])).toBe(85);
  expect(median([3, 1, 2])).toBe(2);
  expect(median([])).toBeNaN();
});

test("peers without a result says which command makes one, and so does one without a peer", () => {
  expect(peersText(folder, [])).toBe(`${folder} has no result of taking events yet: npm run bench -- ingest`);
  kept("2025-01-01T000000-ingest.json", [run("tributary", 1, 15_000)]);
  expect(peersText(folder, [])).toContain("Nothing stands beside ours in any result: npm run bench -- ingest");
});

test("peers shows the newest result with its circumstances, and says that no peer is installed", () => {
  kept("2026-01-01T000000-ingest.json", [run("tributary", 1_000, 1)]);
  kept("2026-01-02T000000-ingest.json", [run("tributary", 1_000, 70_001), run("tutorial twin", 10_000, 28_001)]);
  kept("2026-01-03T000000-chain.json", []);
  const text = peersText(folder, []);
  expect(text).toContain("commit abc1234, 2 x CPU, Node v20, load 0.2 before, then 2.5, runs of 20 s");
  expect(text).toMatch(/tributary +1000 +70001 .*\ntutorial twin +10000 +28001 /);
  expect(text).toMatch(/None of vector, .* is installed here\./);
  kept("2026-01-03T000000-ingest.json", [run("tributary", 1, 15_000)]);
  expect(peersText(folder, []), "bodies of ours alone, measured since").toBe(text);
});

test("a peer that is installed and was not measured is named with the command that measures it", () => {
  const vector = { name: "vector", program: "vector", version: "vector 0.58.0" };
  expect(peersText(folder, [vector])).toContain(
    "vector is installed (vector 0.58.0) and not in this result; with a configuration of its own it joins the next: " +
      "npm run bench -- ingest --peer 'vector=vector ...'",
  );
  kept("2026-01-04T000000-ingest.json", [run("tributary", 1_000, 1), run("vector", 10_000, 60_001)]);
  expect(peersText(folder, [vector])).toMatch(/vector +10000 +60001/);
  expect(peersText(folder, [vector])).not.toContain("installed");
  expect(peerNamed("vector=vector --config a=b.yaml")).toEqual({ name: "vector", command: "vector --config a=b.yaml" });
  expect(() => peerNamed("vector")).toThrow("--peer: vector is not name=command");
});
