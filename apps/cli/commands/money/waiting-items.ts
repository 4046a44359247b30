// Lists the items that wait for their sale or for a person: refunds, decisions and held lines, each
// with its age and reason.
import type { Command } from "commander";
import { toDecimal } from "../../../../domain/money.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table } from "../../../../infra/runtime/output.ts";
import { type WaitingOfOrder, waitingOrders } from "../../../../modules/money/orders/waiting-items.ts";
import { DISPUTED_TOTAL } from "../../../../processors/settle/order.ts";
import { clientOf, withPool } from "../../pool.ts";

interface Options {
  readonly client?: string;
  readonly olderThan: string;
  readonly json?: boolean;
}
/** The advice for each reason. Only the sender can answer some of them. */
const CURES: Readonly<Record<string, string>> = {
  no_sale: "its order is not known: ask for the sale, or for the right order id",
  no_such_event:
    "the event that it names made no line here: the keeper moves the refund within the hour once the event is known; " +
    "else ask for the right event id, or tributary decide take-back --event",
  no_such_line:
    "its order has no such product: ask for the right one, or for a refund without a product; " +
    "behind keep total, for an amount",
  other_currency: "no line is in its currency: ask for the amount in the currency of the sale",
  refund_twice:
    "another source reported the same: tributary decide reject --event if both are one refund, " +
    "release --event if they are two",
  exceeds_its_lines: "nothing is owed: the refunds exceed what the order was worth",
};
const OF_HELD = "tributary explain, then tributary decide release, reattribute or reject";
const OF_DISPUTED =
  "its total and its lines differ: tributary explain, then tributary decide release --keep total or --keep lines";
const cureOf = ({ kind, reason }: WaitingOfOrder): string =>
  kind === "held" && reason === DISPUTED_TOTAL
    ? OF_DISPUTED
    : kind === "held"
      ? OF_HELD
      : kind === "decision"
        ? "decide again about the right order"
        : (CURES[reason] ?? "");

/** A line for each reason. The same stands below the table, for what is in it. */
const curesInWords = (): string =>
  [...Object.entries(CURES), [DISPUTED_TOTAL, OF_DISPUTED] as const, ["any other held line", OF_HELD] as const]
    .map(([reason, cure]) => `  ${reason}: ${cure}`)
    .join("\n");

const HOUR_MS = 3_600_000;
/** A longer list does not help a person who decides one item at a time. */
const MOST = 10_000;

const hoursOf = (text: string): number => {
  if (!/^\d{1,5}$/.test(text)) throw new UsageError(`--older-than: ${text} is not a number of hours`);
  return Number(text);
};

const age = (ms: number): string =>
  ms < 48 * HOUR_MS ? `${Math.floor(ms / HOUR_MS)} h` : `${Math.floor(ms / (24 * HOUR_MS))} d`;

/** An amount without a currency has the decimals of the default one. */
const amount = ({ amount_minor, currency }: WaitingOfOrder): string | null =>
  amount_minor === null
    ? null
    : `${toDecimal(amount_minor, currency ?? "MXN")}${currency === null ? "" : ` ${currency}`}`;

const list = (options: Options): Promise<void> =>
  withPool(async (pool) => {
    const now = Date.now();
    const latest = now - hoursOf(options.olderThan) * HOUR_MS;
    const client = options.client === undefined ? undefined : await clientOf(pool, options.client);
    const found: WaitingOfOrder[] = [];
    for await (const one of waitingOrders(pool, now, { ...(client && { clientId: client.client_id }) })) {
      if (one.since > latest) continue;
      found.push(one);
      if (found.length === MOST) break;
    }
    found.sort((a, b) => a.since - b.since);
    if (options.json)
      return printJson(
        found.map(({ amount_minor, since, ...one }) => ({
          ...one,
          amount: amount_minor === null ? null : toDecimal(amount_minor, one.currency ?? "MXN"),
          cure: cureOf({ ...one, amount_minor, since }),
          since: new Date(since).toISOString(),
          age_seconds: Math.floor((now - since) / 1_000),
        })),
      );
    if (found.length === 0) return print("nothing waits");
    print(
      table(
        ["kind", "age", "client", "order", "product", "partner", "amount", "reason", "id"],
        found.map((one) => [
          ...[one.kind, age(now - one.since), one.client_id, one.order_key, one.product_id, one.partner_id],
          ...[amount(one), one.reason, one.id],
        ]),
      ),
    );
    for (const [reason, cure] of new Map(found.map((one) => [`${one.kind} ${one.reason}`, cureOf(one)])))
      print(`${reason}: ${cure}`);
    if (found.length === MOST) print(`the first ${MOST} that were found; narrow it with --client or --older-than`);
  });

export const waitingCommands = (program: Command): void => {
  program
    .command("waiting")
    .description("lists what waits for a line or a person, and refunds that are void, with what helps")
    .option("--client <slug or id>", "of one client")
    .option("--older-than <hours>", "only what has waited longer", "0")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary waiting --older-than 48\n  $ tributary waiting --client casa-verde --json\n\n" +
        `What helps, by reason:\n${curesInWords()}\n`,
    )
    .action(list);
};
