// Law C7 for money: report, rows and ledger agree, also with an accountant who has not read the
// code.
import { afterAll, expect, test } from "vitest";
import { openPool } from "../../infra/postgres/sql.ts";
import { report } from "../../modules/figures/reports/report.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { ledger } from "../../sinks/ledger/table.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { productSales } from "../../sinks/product-sales/table.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import type { Table } from "../../stream/flow.ts";
import { topics } from "../../topics.ts";
import { historyOf } from "../processors/oracle/draw.ts";
import type { History } from "../processors/oracle/history.ts";
import { answersTo, reportsOf } from "../processors/oracle/oracle.ts";
import { driven } from "../processors/oracle/run-histories.ts";
import { sharedStack } from "../support/shared-stack.ts";

const pool = openPool(sharedStack().env.POSTGRES_URL!);
afterAll(() => pool.end());

/** Keeps the clients of these histories apart from those of other runs. */
const from = 100_000 + (Math.floor(Date.now() / 1_000) % 800_000);
const clientIdOf = (n: number, client: number): number => (from + n) * 10 + client;

type ByClient = { readonly client_id: number };
const write = async <Row extends ByClient>(table: Table<Row>, rows: readonly Row[]): Promise<void> => {
  const tenants = [...new Set(rows.map(({ client_id }) => client_id))];
  await postgresStore(pool).within({ tenants, token: "" }, (each) => table.write(rows, each));
};

/** The accountant's figures by client, month and currency. */
const expectedOf = (history: History): Readonly<Record<string, string>> => {
  const earned = new Map<string, bigint>();
  for (const [name, amount] of Object.entries(answersTo(history).money)) {
    const [, client, currency, year, month] = /^(\d+)\/.* (\w{3}) (\d+)-(\d+)$/.exec(name)!;
    const key = `${client} ${year}-${month} ${currency}`;
    earned.set(key, (earned.get(key) ?? 0n) + amount);
  }
  const sold = reportsOf(history);
  const said = [...new Set([...Object.keys(sold), ...earned.keys()])].map((key): [string, string] => {
    const { orders = 0, disputed = 0, revenue = 0n, refunded = 0n } = sold[key] ?? {};
    return [
      key,
      `${orders} orders, ${disputed} disputed, ${revenue} sold, ${refunded} back, ${earned.get(key) ?? 0n} earned`,
    ];
  });
  const isEmpty = (words: string): boolean => words.startsWith("0 orders") && words.endsWith(" 0 earned");
  return Object.fromEntries(said.filter(([, words]) => !isEmpty(words)));
};
const minor = (amount: string): string => `${BigInt(amount.replace(".", ""))}`;
const saidBy = async (history: History, n: number): Promise<Readonly<Record<string, string>>> => {
  const said: Record<string, string> = {};
  for (const { id } of history.clients)
    for (const row of (await report(pool, clientIdOf(n, id), "month")).rows) {
      const [year, month] = row.month.split("-");
      const [revenue, refunded, commission] = [row.revenue, row.refunded, row.commission].map(minor);
      const disputed = row.disputed_total ?? 0;
      said[`${id} ${year}-${Number(month)} ${row.currency}`] =
        `${row.orders} orders, ${disputed} disputed, ${revenue} sold, ${refunded} back, ${commission} earned`;
    }
  return said;
};

test("report, rows and ledger agree over refunds, late lines and mixed currencies", async () => {
  const histories = Array.from({ length: 300 }, (_, n) => historyOf(700_000 + n));
  const { log } = await driven(histories, from);
  const sales = log.read(topics.eventsAttributed).flatMap((event) => saleRows(event));
  for (const version of [...new Set(sales.map((row) => row.version))].sort((a, b) => a - b))
    await write(
      productSales,
      sales.filter((row) => row.version === version),
    );
  await write(
    ledger,
    log.read(topics.ledgerEntries).flatMap((entry) => ledgerRows(entry)),
  );
  for (const [n, history] of histories.entries())
    expect(await saidBy(history, n), `history ${700_000 + n}`).toEqual(expectedOf(history));
});
