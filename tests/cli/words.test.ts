// What commands say in their help and in their answers about money.
import { Command } from "commander";
import { describe, expect, test } from "vitest";
import { linesOf } from "../../apps/cli/commands/money/undo-import.ts";
import { ordersIn, sharedIn, totals } from "../../apps/cli/commands/reports/report.ts";
import { fileOf } from "../../apps/cli/commands.ts";

const helpOf = async (...words: readonly string[]): Promise<string> => {
  const shown: string[] = [];
  const program = new Command("tributary").exitOverride();
  (await fileOf(words[0])!.load())(program);
  let command: Command = program;
  for (const word of words) command = command.commands.find((one) => one.name() === word)!;
  command.configureOutput({ writeOut: (text) => void shown.push(text) });
  command.outputHelp();
  return shown.join("");
};

describe("the help of", () => {
  test("an undo says that the file's word is withdrawn, and not that sales go to no partner", async () => {
    const help = await helpOf("decide", "undo-import");
    expect(help).toContain("withdraws what an imported file said");
    expect(help).toContain("import_undone");
    expect(help).not.toContain("to no partner");
  });
  test("a release has an example that says which of two stands; no other decision has", async () => {
    expect(await helpOf("decide", "release")).toContain("--order A-1002 --keep lines");
    expect(await helpOf("decide", "reject")).not.toContain("--keep");
  });
  test("what waits names a cure for each reason", async () => {
    const help = await helpOf("waiting");
    for (const reason of ["no_sale", "other_currency", "refund_twice", "disputed_total", "exceeds_its_lines"])
      expect(help).toMatch(new RegExp(`\n  ${reason}: .{20}`));
  });
});

test("a file without its client's currency is not said to have brought nothing in it", () => {
  const row = { id: "imp_1", filename: "x.csv", status: "completed", accepted: 3, undone_at: null };
  const shown = (stored_revenue: string, other_currencies: readonly object[]) =>
    linesOf({ ...row, currency: "USD", stored_revenue, other_currencies }).slice(1);
  const pesos = { currency: "MXN", stored_revenue: "430.00" };
  expect(shown("0.00", [pesos])).toEqual(["MXN: 430.00 was taken of it"]);
  expect(shown("10.00", [pesos])).toEqual(["USD: 10.00 was taken of it", "MXN: 430.00 was taken of it"]);
  expect(shown("0.00", [])).toEqual([]);
});

test("the total of a report counts an order of two partners once, and adds up amounts", () => {
  const money = { currency: "MXN", revenue: "100.00", refunded: "0.00", commission: "10.00" };
  const rows = [
    { partner: "21", orders: 3, ...money },
    { partner: "22", orders: 2, ...money },
    { partner: "22", orders: 1, ...money, currency: "USD" },
  ];
  const orders = ordersIn([
    { currency: "MXN", orders: 3 },
    { currency: "MXN", orders: 1 },
    { currency: "USD", orders: 1 },
  ]);
  expect(totals(rows as never, true, orders)).toEqual([
    ["total", null, "MXN", 4, "200.00", "0.00", "20.00"],
    ["total", null, "USD", 1, "100.00", "0.00", "10.00"],
  ]);
  expect(sharedIn(rows as never, orders)).toBe(1);
});
