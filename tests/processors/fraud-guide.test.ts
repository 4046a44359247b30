// Runs the tables of docs/fraud.md, read from the page itself.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { toDecimal, toMinor } from "../../domain/money.ts";
import { nightlyDefaults } from "../../domain/reference/thresholds.ts";
import { findingsOf } from "../../modules/money/nightly/findings.ts";
import { flatnessOf, spans } from "../../modules/money/nightly/flatness.ts";
import type { Claim } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import { committed, decide, flag, pixelSale, refund, sale, settled } from "../support/money-builders.ts";

const page = readFileSync(new URL("../../docs/fraud.md", import.meta.url), "utf8");
/** Cells of every table with this first header. */
const tablesOf = (header: string): readonly (readonly (readonly string[])[])[] =>
  page
    .split("\n\n")
    .filter((block) => block.startsWith(`| ${header} |`))
    .map((block) =>
      block
        .trim()
        .split("\n")
        .slice(2)
        .map((line) =>
          line
            .split("|")
            .slice(1, -1)
            .map((cell) => cell.trim()),
        ),
    );

const minorOf = (text: string): bigint => {
  const read = toMinor(text, "MXN");
  if (read.kind === "bad_amount") throw new Error(`${text} ${read.why}`);
  return read.minor;
};
const partnerIn = (text: string): number | null =>
  text.includes("uncredited") ? null : Number(/to (\d+)/.exec(text)?.[1]);
const claimOf = (text: string): Recorded<Claim> => {
  const [what] = text.split(" ");
  switch (what) {
    case "sale":
      return sale({ partner: partnerIn(text), band: text.includes("review") ? "review" : "ok" });
    case "copy":
      return pixelSale({ partner: partnerIn(text) });
    case "refund":
      return refund({ value_minor: minorOf(text.split(" ")[2]!) });
    case "assign":
    case "reattribute":
      return decide(what, { partner_id: partnerIn(text) });
    case "take_back":
    case "reject":
    case "release":
      return decide(what);
    case "flag": {
      const [, code, weight] = text.split(" ");
      return flag(code!, Number(weight));
    }
    default:
      throw new Error(`the page says ${text}, which this test cannot tell`);
  }
};

describe.each(tablesOf("what comes").map((rows) => [rows.map(([what]) => what).join(", "), rows] as const))(
  "%s",
  (_, rows) => {
    test("comes out as the page says", () => {
      const claims = rows.map(([what]) => claimOf(what!));
      const told = claims.map((__, n) => {
        const after = settled(...claims.slice(0, n + 1));
        const row = after.rows
          .filter(({ event, merged_into }) => event.t === "purchase" && merged_into === null)
          .at(-1);
        const lines = committed(after.conversions).flatMap((entry) => entry.lines);
        const owed = (account: string) =>
          toDecimal(
            lines.reduce((sum, line) => (line.account === account ? sum - line.amount_minor : sum), 0n),
            "MXN",
          );
        return [rows[n]![0], String(row?.credit.partner_id ?? ""), owed("payable:partner"), owed("held:partner")];
      });
      expect(told).toEqual(rows);
    });
  },
);

test("floods are those of the page", () => {
  const rows = tablesOf("clicks").flat();
  expect(rows).toHaveLength(4);
  for (const [clicks, conversions, flood] of rows) {
    const counts = { partner_id: 21, clicks: Number(clicks), conversions: Number(conversions), byHour: new Map() };
    expect(findingsOf([counts], nightlyDefaults).length === 1 ? "yes" : "no").toBe(flood);
  }
});

test("flat distributions are those of the page", () => {
  const rows = tablesOf("spread over").flat();
  expect(rows).toHaveLength(6);
  for (const row of rows) {
    const [name, how, conversions] = row;
    const span = spans.find((one) => one.name === name)!;
    const inHour = (hour: number): number => {
      if (how === "even") return Number(conversions) / (span.to - span.from);
      if (how === "at once") return hour === span.from ? Number(conversions) : 0;
      return (Number(conversions) * Math.log((hour + 1) / hour)) / Math.log(span.to / span.from);
    };
    const byHour = new Map(
      Array.from({ length: span.to - span.from }, (_, n) => [span.from + n, inHour(span.from + n)]),
    );
    const { sample, distance } = flatnessOf(byHour, span);
    const isFlat = findingsOf([{ partner_id: 21, clicks: 0, conversions: 0, byHour }], nightlyDefaults).length === 1;
    expect([name, how, String(Math.round(sample)), distance.toFixed(2), isFlat ? "yes" : "no"]).toEqual(row);
  }
});

test("defaults are those of the page", () => {
  expect(
    tablesOf("setting")
      .flat()
      .map(([name, value]) => [name!.replaceAll("`", ""), Number(value)]),
  ).toEqual(Object.entries(nightlyDefaults));
});
