// Runs the worked examples of docs/commissions.md, read from the page itself.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { toDecimal, toMinor } from "../../domain/money.ts";
import type { Conversion, LedgerEntry } from "../../schemas/generated.ts";
import { computedAgain, type Happening, history, sumOf, takenBack, written } from "../support/contract-builders.ts";
import { committed, terms } from "../support/money-builders.ts";

interface Row {
  readonly event: string;
  readonly on: string;
  readonly value: string;
  readonly earns: string;
  readonly adjusts: string;
  readonly reason: string;
}
interface Example {
  readonly section: string;
  readonly contract: string;
  /** The contract that follows, and its first day in June. */
  readonly next: { readonly from: string; readonly contract: string } | null;
  readonly rows: readonly Row[];
}

const EXAMPLE = /^Contract: `([^`]+)`(?:, from ([\d-]+) `([^`]+)`)?\n\n((?:\|.*\n)+)/gm;
const examplesOf = (page: string): readonly Example[] =>
  page.split(/^## /m).flatMap((section) =>
    [...section.matchAll(EXAMPLE)].map(([, contract = "", from, next = "", table = ""]) => ({
      section: section.slice(0, section.indexOf("\n")),
      contract,
      next: from === undefined ? null : { from, contract: next },
      rows: table
        .trim()
        .split("\n")
        .slice(2)
        .map((line): Row => {
          const [event = "", on = "", value = "", earns = "", adjusts = "", reason = ""] = line
            .split("|")
            .slice(1, -1)
            .map((cell) => cell.trim());
          return { event, on, value, earns, adjusts, reason };
        }),
    })),
  );

const page = readFileSync(new URL("../../docs/commissions.md", import.meta.url), "utf8");
const minorOf = (text: string, currency = "MXN"): bigint => {
  const read = toMinor(text, currency);
  if (read.kind === "bad_amount") throw new Error(`${text} ${read.why}`);
  return read.minor;
};
/** Noon of that day in Mexico City. */
const noonOf = (day: string): number => Date.parse(`${day.length === 5 ? `2026-${day}` : day}T18:00:00Z`);

const happeningsOf = (rows: readonly Row[]): readonly Happening[] => {
  const names: string[] = [];
  return rows.map(({ event, on, value }): Happening => {
    const [what, name = ""] = event.split(" ");
    const [, customer = "somebody"] = / by (\S+)/.exec(event) ?? [];
    const [, order_id] = / in (\S+)/.exec(event) ?? [];
    const [amount = "", currency = "MXN"] = value.split(" ");
    if (what === "refund") return { refundOf: names.indexOf(name), minor: minorOf(amount, currency) };
    names.push(name);
    return {
      sale: minorOf(amount, currency),
      over: {
        occurred_at: noonOf(on),
        currency,
        customer,
        ...(order_id && { order_id }),
      } satisfies Partial<Conversion>,
    };
  });
};

const examples = examplesOf(page);

test("the page has an example of every type, of limits and of caps", () => {
  const types = new Set(examples.map(({ contract }) => JSON.parse(contract).type));
  expect([...types].sort()).toEqual(["flat", "hybrid", "percent", "recurring", "tiered"]);
  expect(examples.length).toBe(page.match(/^Contract: /gm)?.length);
  expect(new Set(examples.map(({ section }) => section))).toContain("Caps");
});

describe.each(examples)("$section: $contract", ({ contract, next, rows }) => {
  const one = written(JSON.parse(contract));
  const begins = next === null ? Number.POSITIVE_INFINITY : noonOf(next.from);
  const other =
    next === null ? one : { ...written(JSON.parse(next.contract)), contract_id: 62, effective_from: begins };
  const entriesOf = (happenings: readonly Happening[]): readonly LedgerEntry[] =>
    committed(history(happenings), ({ data }) => terms({ contract: data.occurred_at < begins ? one : other }));

  test("pays as the page says", () => {
    const byChange = new Map<string, LedgerEntry[]>();
    for (const entry of entriesOf(happeningsOf(rows)))
      byChange.set(entry.change_id, [...(byChange.get(entry.change_id) ?? []), entry]);
    const paid = [...byChange.values()].map(([own, adjustment], n) => ({
      ...rows[n]!,
      earns: toDecimal(own!.amount_minor, own!.currency),
      adjusts: adjustment === undefined ? "" : toDecimal(adjustment.amount_minor, adjustment.currency),
      reason: adjustment?.reason ?? (own!.kind === "none" ? own!.reason : ""),
    }));
    expect(paid).toEqual(rows);
  });

  test("can be computed again from its receipts", () => {
    for (const entry of entriesOf(happeningsOf(rows)))
      if (entry.kind !== "none") expect(computedAgain(entry)).toBe(entry.amount_minor);
  });

  test("is nothing after all when everything is refunded", () => {
    expect(sumOf(entriesOf(takenBack(happeningsOf(rows))))).toBe(0n);
  });
});
