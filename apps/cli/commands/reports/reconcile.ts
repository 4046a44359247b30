// `tributary reconcile`: compares a shop's own list of orders with the orders that are counted
// here.
import type { Command } from "commander";
import { dayOf, startOfDay } from "../../../../domain/calendar.ts";
import { spelling, spellingsOf } from "../../../../domain/ids.ts";
import { digitsOf, toMinor } from "../../../../domain/money.ts";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { csvLine } from "../../../../infra/http/csv.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import {
  compareOrders,
  otherEvents,
  ourOrders,
  type ShopOrder,
  type Span,
} from "../../../../modules/figures/reports/reconcile.ts";
import { addresses } from "../../config.ts";
import { missingColumns, pairsOf, type Row, rowsOf } from "../../csv-events.ts";
import { clientOf, withPool } from "../../pool.ts";
import { sayOnTheWay, theWay, withTheWay } from "./report.ts";

interface ReconcileOptions {
  readonly client: string;
  readonly map?: string;
  readonly currency?: string;
  readonly csv?: boolean;
  readonly json?: boolean;
}

const FIELDS = ["order_id", "revenue", "currency", "ts"];
const DAY_MS = 86_400_000;

/**
 * Returns the column of each field: the one that --map names, otherwise the one of the same name.
 */
const columnsOf = (row: Row, map: string | undefined): ReadonlyMap<string, string> => {
  const given = pairsOf("--map", map);
  for (const field of given.keys())
    if (!FIELDS.includes(field)) throw new UsageError(`--map: ${field} is none of ${FIELDS.join(", ")}`);
  return new Map([...FIELDS.flatMap((field) => (field in row ? [[field, field] as const] : [])), ...given]);
};

const amountOf = (row: Row, line: number, column: string | undefined, currency: string): bigint | null => {
  if (column === undefined) return null;
  const text = (row[column] ?? "").trim();
  const read = toMinor(/^-?\d+(\.\d+)?$/.test(text) ? text : Number.NaN, currency);
  if (read.kind === "bad_amount") throw new UsageError(`line ${line}: ${column}: "${text}" ${read.why}`);
  return read.minor;
};

const ordersOf = (rows: readonly Row[], columns: ReadonlyMap<string, string>, fallback: string): readonly ShopOrder[] =>
  rows.map((row, n) => {
    const line = n + 2;
    const currency = (row[columns.get("currency") ?? ""] ?? "").trim().toUpperCase() || fallback;
    if (digitsOf(currency) === undefined) throw new UsageError(`line ${line}: ${currency} is no currency of ISO 4217`);
    const order_id = (row[columns.get("order_id")!] ?? "").trim();
    return { order_id, currency, amount: amountOf(row, line, columns.get("revenue"), currency), line };
  });

/** Returns the days of the file, both included; undefined without a column of times. */
const spanOf = (rows: readonly Row[], column: string | undefined): Span | undefined => {
  if (column === undefined) return undefined;
  const days = rows.flatMap((row) => {
    const text = (row[column] ?? "").trim();
    if (/^\d{4}-\d{2}-\d{2}$/.test(text)) return text;
    const at = /^\d{11,}$/.test(text) ? Number(text) : Date.parse(text);
    return Number.isNaN(at) ? [] : dayOf(at);
  });
  if (days.length === 0) throw new UsageError(`${column}: no row holds a date such as 2026-01-31`);
  days.sort();
  const after = new Date(Date.parse(days.at(-1)!) + DAY_MS).toISOString().slice(0, 10);
  return { from: startOfDay(days[0]!), to: startOfDay(after) };
};

const reconcile = async (file: string, options: ReconcileOptions): Promise<void> => {
  const rows = await rowsOf(file);
  const columns = columnsOf(rows[0]!, options.map);
  const missing = missingColumns(rows[0]!, [columns.get("order_id") ?? "order_id", ...columns.values()]);
  if (missing.length > 0)
    throw new UsageError(
      `${file} has no column ${missing.join(", ")}; it has ${Object.keys(rows[0]!).join(", ")}. ` +
        "Say which holds what: --map order_id=<column>,revenue=<column>,ts=<column>",
    );
  const waiting = await withTheWay((await theWay()).onTheWay);
  const found = await withPool(async (pool) => {
    const client = await clientOf(pool, options.client);
    const shop = ordersOf(rows, columns, options.currency ?? client.currency);
    const ids = [...new Set(shop.map(({ order_id }) => spelling(order_id)))];
    const stored = [...new Set(shop.flatMap(({ order_id }) => spellingsOf(order_id)))];
    const ours = await ourOrders(pool, client.client_id, stored, spanOf(rows, columns.get("ts")));
    const known = new Set(ours.map(({ order_id }) => spelling(order_id)));
    const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops" });
    try {
      const unknown = ids.filter((id) => id !== "" && !known.has(id));
      const others = await otherEvents(clickhouse, client.client_id, unknown);
      return compareOrders({ shop, ours, others, onTheWay: waiting });
    } finally {
      await clickhouse.close();
    }
  });
  if (found.differences.length > 0) process.exitCode = 1;
  if (options.json) return printJson({ ...found, on_the_way: waiting });
  const headers = ["side", "order", "currency", "shop", "here", "line", "reason"];
  const cells = found.differences.map((one) => [
    ...[one.side, one.order_id, one.currency, one.shop, one.here, one.line, one.reason],
  ]);
  if (options.csv) {
    const kinds = headers.map((name) => (["shop", "here", "line"].includes(name) ? "number" : "text"));
    process.stdout.write([headers, ...cells].map((line) => csvLine(line, kinds)).join(""));
  } else if (cells.length > 0) print(table(headers, cells));
  const only = (side: string): number => found.differences.filter((one) => one.side === side).length;
  tell(
    `${found.shop_orders} orders in the file, ${found.our_orders} here: ${found.same} the same, ` +
      `${only("only the shop")} only in the file, ${only("only here")} only here, ${only("both")} with another amount`,
  );
  if (!columns.has("ts") && only("only here") > 0)
    tell("the file names no days, so every order that it lacks is listed; with one: --map ts=<column>");
  sayOnTheWay(waiting, "run it again in a moment");
};

export const reconcileCommand = (program: Command): void => {
  program
    .command("reconcile <shop.csv>")
    .description("what a shop's own list of orders has and we have not, and the other way round, with reasons")
    .requiredOption("--client <slug or id>")
    .option("--map <field=column,...>", `which column holds ${FIELDS.join(", ")}; by default those of that name`)
    .option("--currency <code>", "of rows that name none; by default the client's")
    .option("--csv", "as CSV")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary reconcile orders.csv --client casa-verde\n" +
        "  $ tributary reconcile orders.csv --client casa-verde --map order_id=number,revenue=total,ts=day --csv\n\n" +
        "With a column of days (ts) what is here alone is looked for on those days; rows of one order are added up.\n" +
        "Exit 0: no difference; 1: there are some.\n",
    )
    .action(reconcile);
};
