// The live screen of npm start fits the smallest terminal in use.
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Run } from "../../infra/embedded/supervisor.ts";
import type { Demo } from "../../modules/running/installation/seed.ts";
import { fitted, shortHead } from "../../tools/stack/screen.ts";
import { hostName, shownLines } from "../../tools/stack/screen-reading.ts";

const money = (amount: string) => [
  { amount, currency: "MXN" },
  { amount, currency: "USD" },
];
const client = (slug: string, amount: string) => ({
  ...{ slug, events: 12_345_678, conversions: 1_234_567 },
  ...{ revenue: money(amount), commission: money(amount) },
});
const shown = (amount: string) =>
  shownLines({
    rates: { received: "71688", stored: "16700" },
    problem: undefined,
    fresh: { p50_ms: 2_300, p99_ms: 14_900 },
    lags: [
      "archive",
      "enrich,score,attribute",
      "settle",
      "commission",
      "analytics,product-sales,identity,velocity",
    ].map((nodes) => ({ name: hostName(nodes.split(",")), lag: 5_884 })),
    clients: ["aurora-music", "casa-verde", "norte-outdoor"].map((slug) => client(slug, amount)),
    isBalanced: true,
  });

test("at 80 x 24 no line wraps and none scrolls away, whatever there is to say", () => {
  for (const notes of [0, 3, 40]) {
    const text = ["head", "", ...shown("1234567890.00"), "", ...Array(notes).fill("x".repeat(300))].join("\n");
    const lines = fitted(text, { columns: 80, rows: 24 }).split("\n");
    expect(lines.length).toBeLessThan(24);
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(lines.at(-1)).toBe("Ctrl-C stops everything.");
  }
});

test("at 80 x 24 no address, amount or number of records is cut off", () => {
  const app = (port: number) => ({ url: `http://127.0.0.1:${port}`, ops_url: `http://127.0.0.1:${port + 1}`, pid: 1 });
  const run = () => ({ apps: { ingest: app(65_530), api: app(65_531), pixel: app(65_532) } }) as unknown as Run;
  const link = { code: "viento-mochila", link_id: 9, client_id: 3, partner_id: 8 };
  const demo = { links: [{ ...link, url: "http://127.0.0.1:65533/c/viento-mochila" }] } as unknown as Demo;
  const at = join(process.cwd(), ".tributary");
  const text = [shortHead({ run, home: at, demo, shopUrl: "http://127.0.0.1:65534/" }), "", ...shown("1234567890.00")];
  const lines = fitted(text.join("\n"), { columns: 80, rows: 24 });
  expect(lines).not.toContain("…");
  for (const whole of [
    ...Object.values(run().apps).map(({ url }) => url),
    demo.links[0]!.url,
    "http://127.0.0.1:65534/",
  ])
    expect(lines).toContain(whole);
  expect(lines.match(/1234567890\.00 MXN +1234567890\.00 MXN/g)).toHaveLength(3);
  expect(lines.match(/1234567890\.00 USD +1234567890\.00 USD/g)).toHaveLength(3);
  expect(lines.match(/ 5884\b/g)).toHaveLength(5);
  expect(lines).toContain("ledger balances");
});

test("a host has the name of its first node and says how many others it has", () => {
  expect(["settle", "enrich,score", "enrich,score,attribute"].map((nodes) => hostName(nodes.split(",")))).toEqual([
    "settle",
    "enrich and 1 other",
    "enrich and 2 others",
  ]);
});

test("what waits is named, the most first, and nothing otherwise", () => {
  expect(shown("1.00")[2]).toMatch(/^records that wait: archive 5884, enrich and 2 others 5884, /);
  const none = { rates: { received: "0", stored: "0" }, problem: undefined, clients: [], isBalanced: false };
  const lines = shownLines({ ...none, fresh: { p50_ms: null, p99_ms: null }, lags: [{ name: "settle", lag: 0 }] });
  expect(lines).toContain("nothing waits");
  expect(lines.at(-1)).toBe("ledger DOES NOT BALANCE");
});
