// `tributary report`: what was sold and earned.

import type { Command } from "commander";
import { startOfDay } from "../../../../domain/calendar.ts";
import { toDecimal } from "../../../../domain/money.ts";
import type { Client, ReferenceAt } from "../../../../domain/reference/reference.ts";
import { csvLine } from "../../../../infra/http/csv.ts";
import { lastingAdmin } from "../../../../infra/kafka/kafka.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { referenceNow } from "../../../../modules/catalog/clients/find-client.ts";
import type { onTheWay } from "../../../../modules/figures/reports/on-the-way.ts";
import {
  bys,
  type ReportBy,
  type ReportFilter,
  type ReportRow,
  report,
} from "../../../../modules/figures/reports/report.ts";
import { hostsNow, recordedHostings } from "../../../../modules/log/groups/hosts.ts";
import { kafkaOf } from "../../connections.ts";
import { clientOf, withPool } from "../../pool.ts";

interface ReportFlags {
  readonly from?: string;
  readonly to?: string;
  readonly partner?: string;
  readonly campaign?: string;
  readonly segment?: string;
}
interface ReportOptions extends ReportFlags {
  readonly client: string;
  readonly by: string;
  readonly wait?: string | boolean;
  readonly csv?: boolean;
  readonly json?: boolean;
}

const LOG_MS = 3_000;
const WAIT_SEC = 120;
const counted = new Intl.NumberFormat("en-US");

/** Slow to load, because it knows every stage; help does without it. */
export const theWay = () => import("../../../../modules/figures/reports/on-the-way.ts");

/** Asks the log on its own connection; returns null while the log does not answer. */
export const withTheWay = async <T>(
  work: (ask: Parameters<typeof onTheWay>[0], hosts: Parameters<typeof onTheWay>[1]) => Promise<T>,
  withinMs = LOG_MS,
): Promise<T | null> => {
  const { pipeline } = await import("../../../../topology.ts");
  const admin = lastingAdmin(kafkaOf(), withinMs);
  try {
    return await withPool((pool) =>
      admin.ask(async (one) => {
        const recorded = recordedHostings(pool);
        return work(one, await hostsNow({ topology: pipeline, recorded, describeGroups: one.describeGroups }));
      }),
    );
  } catch {
    return null;
  } finally {
    await admin.close();
  }
};

/** Reports events that are not counted yet, and what to do about them. */
export const sayOnTheWay = (records: number | null, todo: string): void => {
  if (records === null) tell("the log does not answer: what is still on its way is not known");
  else if (records > 0)
    tell(`${counted.format(records)} events are still on their way and not counted here yet; ${todo}`);
};

const dayOf = (flag: string, text: string | undefined): number | undefined => {
  if (text === undefined) return undefined;
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text));
  if (!isDay) throw new UsageError(`${flag}: ${text} is no day, such as 2026-11-30`);
  return startOfDay(text);
};
const nextDay = (day: string): string => new Date(Date.parse(day) + 86_400_000).toISOString().slice(0, 10);
const idOf = (flag: string, text: string | undefined): number | undefined => {
  if (text === undefined) return undefined;
  if (!/^\d{1,9}$/.test(text)) throw new UsageError(`${flag}: ${text} is no id; see: tributary reference list`);
  return Number(text);
};

export const filterOf = ({ from, to, partner, campaign, segment }: ReportFlags): ReportFilter => {
  dayOf("--to", to);
  if (from !== undefined && to !== undefined && from > to)
    throw new UsageError(`--from: ${from} lies behind --to ${to}: turn them round`);
  return {
    from: dayOf("--from", from),
    to: to === undefined ? undefined : dayOf("--to", nextDay(to)),
    partner_id: idOf("--partner", partner),
    campaign_id: idOf("--campaign", campaign),
    segment,
  };
};

/** Throws UsageError for unknown names, whose report would look as if nothing was sold. */
export const refuseStrangers = (
  known: Pick<ReferenceAt, "partner" | "campaign">,
  client: Pick<Client, "client_id" | "slug" | "segments">,
  { partner_id, campaign_id, segment }: ReportFilter,
): void => {
  if (partner_id !== undefined && known.partner(partner_id) === undefined)
    throw new UsageError(`--partner: there is no partner ${partner_id}; see: tributary reference list partners`);
  if (campaign_id !== undefined && known.campaign(campaign_id)?.client_id !== client.client_id)
    throw new UsageError(
      `--campaign: ${campaign_id} is none of ${client.slug}; see: tributary reference list campaigns`,
    );
  if (segment !== undefined && !client.segments.includes(segment))
    throw new UsageError(`--segment: ${segment} is none of ${client.slug}: ${client.segments.join(", ") || "none"}`);
};

/**
 * The report writes amounts with all digits of their currency: without the point they are minor
 * units.
 */
const minorOf = (text: string): bigint => BigInt(text.replace(".", ""));
type Cells = readonly (string | number | null)[];

/** An order with lines of two of these counts in the row of each. */
const PARTS_OF_ORDERS: ReadonlySet<ReportBy> = new Set(["partner", "campaign", "segment"]);

/** Orders by currency. */
type OrderCounts = ReadonlyMap<string, number>;
export const ordersIn = (rows: readonly Pick<ReportRow, "currency" | "orders">[]): OrderCounts => {
  const orders = new Map<string, number>();
  for (const { currency, orders: some } of rows) orders.set(currency, (orders.get(currency) ?? 0) + some);
  return orders;
};

/**
 * Makes one row for each currency, because amounts of two currencies cannot be added. Each order
 * counts once.
 */
export const totals = (rows: readonly ReportRow<ReportBy>[], isNamed: boolean, orders: OrderCounts): readonly Cells[] =>
  [...new Set(rows.map(({ currency }) => currency))].map((currency) => {
    const own = rows.filter((row) => row.currency === currency);
    const sum = (of: (row: ReportRow<ReportBy>) => string) =>
      toDecimal(
        own.reduce((minor, row) => minor + minorOf(of(row)), 0n),
        currency,
      );
    const amounts = [sum((row) => row.revenue), sum((row) => row.refunded), sum((row) => row.commission)];
    return ["total", ...(isNamed ? [null] : []), currency, orders.get(currency) ?? 0, ...amounts];
  });

const waitFirst = async (wait: string | boolean): Promise<void> => {
  const seconds = wait === true ? WAIT_SEC : Number(wait);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > 3_600)
    throw new UsageError(`--wait: ${wait} is not 1 to 3600 seconds`);
  const { waitUntilCounted } = await theWay();
  const isThrough = await withTheWay(
    (asked, hosts) => waitUntilCounted(asked, hosts, seconds * 1_000),
    seconds * 1_000 + LOG_MS,
  );
  if (isThrough === null) throw new Error("the log does not answer: see docs/runbooks/broker-lost.md");
  if (!isThrough) throw new Error(`not everything has come through within ${seconds} s; see: tributary lag`);
};

const showReport = async (options: ReportOptions): Promise<void> => {
  const by = bys.find((known) => known === options.by);
  if (by === undefined) throw new UsageError(`--by: ${options.by} is none of ${bys.join(", ")}`);
  const filter = filterOf(options);
  if (options.wait !== undefined) await waitFirst(options.wait);
  // Asked before the report, so that an event counted in between is reported as on its way, not
  // missing.
  const waiting = await withTheWay((await theWay()).onTheWay);
  const { rows, orders } = await withPool(async (pool) => {
    const client = await clientOf(pool, options.client);
    const found = await report(pool, client.client_id, by, filter);
    // Sales under a name that no longer exists are shown all the same.
    if (found.rows.length === 0) refuseStrangers(await referenceNow(pool), client, filter);
    const whole = PARTS_OF_ORDERS.has(by) ? await report(pool, client.client_id, "month", filter) : found;
    return { rows: found.rows, orders: ordersIn(whole.rows) };
  });
  if (options.json) return printJson({ rows, on_the_way: waiting });
  const isNamed = by === "partner" || by === "campaign";
  const headers = [by, ...(isNamed ? ["name"] : []), "currency", "orders", "revenue", "refunded", "commission"];
  const cells = (row: ReportRow<ReportBy>): Cells => [
    ...[row[by], ...(isNamed ? [row.name ?? null] : []), row.currency],
    ...[row.orders, row.revenue, row.refunded, row.commission],
  ];
  const lines = rows.map(cells);
  if (options.csv) {
    const kinds = headers.map((_, n) => (n < headers.length - 4 ? "text" : "number"));
    process.stdout.write([headers, ...lines].map((line) => csvLine(line, kinds)).join(""));
  } else print(table(headers, [...lines, ...totals(rows, isNamed, orders)]));
  sayShared(rows, orders);
  sayDisputed(rows);
  sayOnTheWay(waiting, "--wait waits for them");
};

/** How often orders are in more rows than one, which the total does not add. */
export const sharedIn = (rows: readonly ReportRow<ReportBy>[], orders: OrderCounts): number =>
  [...ordersIn(rows)].reduce((all, [currency, count]) => all + count - (orders.get(currency) ?? 0), 0);

const sayShared = (rows: readonly ReportRow<ReportBy>[], orders: OrderCounts): void => {
  const shared = sharedIn(rows, orders);
  if (shared > 0)
    tell(
      `orders: one that is in several rows counts in each of them, and once in the total (${counted.format(shared)})`,
    );
};

const sayDisputed = (rows: readonly ReportRow<ReportBy>[]): void => {
  const disputed = rows.reduce((all, { disputed_total = 0 }) => all + disputed_total, 0);
  if (disputed > 0)
    tell(
      `disputed_total: ${counted.format(disputed)} orders count as the larger of their total and their lines, ` +
        "which differ; see: tributary waiting",
    );
};

const EXAMPLES = `Examples:
  $ tributary report --client aurora-music --by month
  $ tributary report --client aurora-music --by partner --from 2026-11-01 --to 2026-11-30
  $ tributary report --client aurora-music --by day --partner 3 --csv > days.csv
  $ tributary report --client aurora-music --by segment --wait

An order belongs to the day or month of its first line (America/Mexico_City), and to the partner, campaign and segment
that its lines are credited to; one of two partners is in the row of each, and once in the total. Commissions come from
the ledger. What is on its way is said on stderr.
`;

export const reportCommand = (program: Command): void => {
  program
    .command("report")
    .description("orders, revenue, refunds and commissions of a client")
    .requiredOption("--client <slug or id>")
    .option("--by <what>", bys.join(", "), "month")
    .option("--from <day>", "the first day, YYYY-MM-DD in Mexico City")
    .option("--to <day>", "the last day")
    .option("--partner <id>", "credited to this partner alone")
    .option("--campaign <id>", "credited to this campaign alone")
    .option("--segment <code>", "of this product line alone")
    .option("--wait [seconds]", `first wait until what was sent is counted, ${WAIT_SEC} s at most by default`)
    .option("--csv", "as CSV")
    .option("--json", "as JSON")
    .addHelpText("before", EXAMPLES)
    .action(showReport);
};
