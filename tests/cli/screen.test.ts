// The live screen of npm start fits the smallest terminal that people have.
import { expect, test } from "vitest";
import { fitted, shownLines } from "../../apps/stack/screen.ts";

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
    lags: ["enrich,score,attribute", "settle", "commission", "analytics,product-sales,identity,velocity"].map(
      (name) => ({
        name,
        lag: 5_884,
      }),
    ),
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

test("what waits is named, the most first, and nothing otherwise", () => {
  expect(shown("1.00")[2]).toMatch(/^waiting: enrich,score,attribute 5884, /);
  const none = { rates: { received: "0", stored: "0" }, problem: undefined, clients: [], isBalanced: false };
  const lines = shownLines({ ...none, fresh: { p50_ms: null, p99_ms: null }, lags: [{ name: "settle", lag: 0 }] });
  expect(lines).toContain("nothing waits");
  expect(lines.at(-1)).toBe("ledger DOES NOT BALANCE");
});
