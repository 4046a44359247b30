// An operator's decisions about an order or an event, refunds included. Shows the subject first,
// and decides with --yes.
import { randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import { type Command, Option } from "commander";
import type pg from "pg";
import { toDecimal } from "../../../../domain/money.ts";
import type { Client } from "../../../../domain/reference/reference.ts";
import { REFUND_REASONS } from "../../../../domain/refunds.ts";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { CommandRefused, UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { actorOf } from "../../../../modules/base/operations/operations.ts";
import { RefusalError } from "../../../../modules/base/refusal.ts";
import type { Work } from "../../../../modules/base/work.ts";
import { referenceNow } from "../../../../modules/catalog/clients/find-client.ts";
import { assignSale } from "../../../../modules/money/decisions/assign.ts";
import type { Keep, RefundDecision } from "../../../../modules/money/decisions/decide.ts";
import type { Sale } from "../../../../modules/money/decisions/find-sales.ts";
import { followDecisions } from "../../../../modules/money/decisions/follow.ts";
import { reattributeSales } from "../../../../modules/money/decisions/reattribute.ts";
import type { DecidedSales, DecisionPorts } from "../../../../modules/money/decisions/record-decisions.ts";
import { refundSale } from "../../../../modules/money/decisions/refund.ts";
import { takeBackSale } from "../../../../modules/money/decisions/take-back.ts";
import { orderLines } from "../../../../modules/money/orders/order-lines.ts";
import type { Claim, DecisionKind } from "../../../../schemas/generated.ts";
import { addresses } from "../../config.ts";
import { publishDecisions } from "../../connections.ts";
import { clientOf, withPool } from "../../pool.ts";
import { byFlags } from "../../refusals.ts";
import { inOperation, inWork, operatorAct } from "../../work.ts";
import { decidedMoney, type MoneyBefore } from "./decide-preview.ts";
import { undoImportCommand } from "./undo-import.ts";
import { unlinkCommand } from "./unlink.ts";

interface DecideOptions {
  readonly client: string;
  readonly order?: string;
  readonly event?: string;
  readonly partner?: string;
  readonly campaign?: string;
  readonly product?: string;
  readonly amount?: string;
  readonly currency?: string;
  readonly cause?: RefundDecision["cause"];
  readonly refundId?: string;
  readonly keep?: Keep;
  readonly reason: string;
  readonly id?: string;
  readonly actor?: string;
  readonly waitForSale?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}
type Kind = Extract<DecisionKind, "assign" | "reattribute" | "take_back" | "release" | "reject"> | "refund";

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const idOf = (flag: string, text: string | undefined): number | undefined => {
  if (text === undefined) return undefined;
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new UsageError(`${flag}: ${text} is not an id`);
  return Number(text);
};

type UseCase = (work: Work, ports: DecisionPorts) => Promise<DecidedSales>;

/** Returns the use case that the options ask for. Throws UsageError. */
export const useCaseOf = (kind: Kind, { client_id }: Pick<Client, "client_id">, options: DecideOptions): UseCase => {
  const { order: order_id, event, product: product_id, reason, waitForSale: isAwaited } = options;
  const [partner_id, campaign_id] = [idOf("--partner", options.partner), idOf("--campaign", options.campaign)];
  const words = { client_id, order_id, reason, actor: `operator:${userInfo().username}` };
  const one = { ...words, event_id: event };
  if (kind === "refund") {
    const { amount, currency, cause = "other", refundId: refund_id } = options;
    const asked = { ...one, product_id, amount, currency, cause, refund_id };
    return (work, ports) => refundSale(work, ports, asked);
  }
  if (kind === "take_back") return (work, ports) => takeBackSale(work, ports, { ...one, isAwaited });
  if (kind === "assign")
    return (work, ports) => assignSale(work, ports, { ...one, isAwaited, partner_id: partner_id!, campaign_id });
  const sales = { ...words, isAwaited, ...(event !== undefined && { event_ids: [event] }) };
  const change = kind === "reattribute" ? { partner_id, campaign_id } : { review: kind, keep: options.keep };
  return (work, ports) => reattributeSales(work, ports, { ...sales, ...change });
};

const FLAGS = {
  ...{ order_id: "--order", product_id: "--product", amount: "--amount", currency: "--currency" },
  ...{ partner_id: "--partner", campaign_id: "--campaign", keep: "--keep" },
};

interface DecideInput {
  readonly pool: pg.Pool;
  readonly kind: Kind;
  readonly client: Client;
  readonly options: DecideOptions;
  readonly decision_id: string;
}

/** Words a refusal in the options of the command, and says what helps. */
const inWords = async ({ pool, client, kind, options }: DecideInput, error: unknown): Promise<void> => {
  if (!(error instanceof RefusalError)) throw error;
  const { slug, client_id } = client;
  const [first] = error.refusals;
  const { code } = first!;
  if (code === "not_found") throw new CommandRefused(unknownIn(options, slug, kind));
  if (code !== "partner_not_of_client") return byFlags(FLAGS)(error);
  const known = (await referenceNow(pool)).partnersOf(client_id);
  const names = known.map((partner) => `${partner.partner_id} ${partner.name}`).join(", ");
  return byFlags(FLAGS, `${options.partner} does not work for ${slug}; these do: ${names || "none"}`)(error);
};

/**
 * Refuses an unknown id, because a mistyped one would wait for ever, and would credit the order
 * that has this id one day.
 */
const unknownIn = ({ order, event, product }: DecideOptions, slug: string, kind: Kind): string => {
  if (event !== undefined) return `--event: no sale, lead or install of ${slug} is known by the id ${event}`;
  const what = product === undefined ? `order ${order} of ${slug}` : `product ${product} of order ${order} of ${slug}`;
  const unknown = `${what} is unknown, and nothing was decided: look for it with tributary explain ${order} --order`;
  return kind === "refund" ? unknown : `${unknown}, or add --wait-for-sale to decide it for when its sale comes`;
};

const amount = (minor: bigint | null, currency: string | null): string | null =>
  minor === null ? null : toDecimal(minor, currency ?? "MXN");

const showSubject = async (pool: pg.Pool, client: Client, { subject }: Sale): Promise<void> => {
  if ("line" in subject) {
    const { order_key, event, copy } = subject.line;
    const { custom_name, t, event_id } = copy ?? event;
    const isOfAll = copy === null ? "" : ", a copy of the lines that its order had";
    return print(
      `${custom_name ?? t} ${event_id}${isOfAll}, settled as ${order_key}; tributary explain shows all of it`,
    );
  }
  const lines = await orderLines(pool, client.client_id, subject.order_id);
  if (lines.length === 0) return;
  print(
    table(
      ["product", "value", "currency", "partner", "why uncredited", "commission", "status"],
      lines.map((line) => [
        line.product_id,
        amount(line.value_minor, line.currency),
        line.currency,
        line.partner_id,
        line.credit_reason,
        amount(line.commission_minor, line.currency),
        line.commission_status,
      ]),
    ),
  );
};

const showMoney = (money: readonly MoneyBefore[], { currency }: Client): void => {
  if (money.length === 0) {
    print(`no partner earns or loses by it (${currency})`);
    return;
  }
  const cells = money.map((one) => [one.partner_id, one.currency, one.before, one.change, one.after]);
  print(table(["partner", "currency", "commission now", "change", "then"], cells));
};

const isCredit = (kind: Kind): boolean => kind === "assign" || kind === "reattribute";

/** Runs the use case without saving. Returns the sale and the claim that it would make. */
const previewed = async ({ pool, decision_id }: DecideInput, ports: DecisionPorts, useCase: UseCase) => {
  const claims: Claim[] = [];
  const keep = { ...ports, decide: async (made: readonly Claim[]) => void claims.push(...made) };
  const settings = { isSaved: false, idOf: () => decision_id };
  const { sales } = await inWork(pool, operatorAct(actorOf(), decision_id), (work) => useCase(work, keep), settings);
  return { sale: sales[0] as Sale, claim: claims[0]! };
};

/**
 * Decides, with the operation in the log first: what cannot be recorded is not decided. Returns the
 * status of the decision.
 */
const put = async (
  deciding: DecideInput,
  ports: DecisionPorts,
  useCase: UseCase,
  { subject }: Sale,
): Promise<string> => {
  const { pool, kind, client, options, decision_id } = deciding;
  const actor = actorOf(options.actor);
  const what = "order_id" in subject ? `order ${subject.order_id}` : `event ${subject.line.event.event_id}`;
  const target = `${kind} of ${what}, client ${client.client_id}`;
  const plan = { kind: "decision" as const, actor, target, reason: options.reason };
  const words = { before: { decision_id }, after: () => ({ decision_id }) };
  const act = operatorAct(actor, decision_id);
  const made = await inOperation(plan, words, () =>
    inWork(pool, act, (work) => useCase(work, ports), { idOf: () => decision_id }),
  );
  const settings = {
    isRelease: kind === "release",
    ...(kind === "assign" && { assignedTo: () => Number(options.partner) }),
  };
  return (await followDecisions(pool, made, settings))[0]!.status;
};

const decideIn = async (deciding: DecideInput, ports: DecisionPorts): Promise<void> => {
  const { pool, kind, client, options, decision_id } = deciding;
  const useCase = useCaseOf(kind, client, options);
  const { sale, claim } = await previewed(deciding, ports, useCase);
  if (!options.json) await showSubject(pool, client, sale);
  const eventIds = sale.lines.map(({ event_id }) => event_id);
  const money = await decidedMoney(pool, client.client_id, eventIds, claim);
  if (!options.json) showMoney(money, client);
  if (!options.yes) {
    if (options.json) printJson({ decision_id, status: "not decided", money });
    return tell("nothing was decided; add --yes to decide it");
  }
  const status = await put(deciding, ports, useCase, sale);
  if (options.json) printJson({ decision_id, status, money });
  else print(`${status}: decision ${decision_id}`);
  if (status === "accepted") tell("it is in the log and was not applied within 5 s; see: tributary lag");
};

const decide = (kind: Kind) => (options: DecideOptions) =>
  withPool(async (pool) => {
    if (options.id !== undefined && !UUID.test(options.id)) throw new UsageError("--id: give a UUID in lower case");
    const client = await clientOf(pool, options.client);
    const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops" });
    const deciding = { pool, kind, client, options, decision_id: options.id ?? randomUUID() };
    try {
      await decideIn(deciding, { clickhouse, decide: publishDecisions }).catch((error) => inWords(deciding, error));
    } finally {
      await clickhouse.close();
    }
  });

/** Adds the options that only one kind of decision has. */
const addOptions = (command: Command, kind: Kind): Command => {
  if (isCredit(kind))
    return command.requiredOption("--partner <id>", "who is credited").option("--campaign <id>", "for which campaign");
  if (kind === "release")
    return command.addOption(
      new Option("--keep <what>", "which stands, where an order's total and its lines differ").choices([
        "total",
        "lines",
      ]),
    );
  if (kind !== "refund") return command;
  return command
    .option("--product <id>", "one product of the order; without it, all of the order")
    .option("--amount <decimal>", "how much, e.g. 100.00; without it, all that is left")
    .option("--currency <code>", "of the amount, where the sale is in several")
    .addOption(new Option("--cause <code>", "why, in the words of refunds").choices(REFUND_REASONS).default("other"))
    .option("--refund-id <id>", "by which it meets what the shop or the processor reports of the same refund");
};

/** A release of an order whose total and lines differ has to say which of both stands. */
const KEEP_EXAMPLE =
  "  $ tributary decide release --client casa-verde --order A-1002 --keep lines --reason 'the shop confirms' --yes\n";

export const decideCommands = (program: Command): void => {
  const decisions = program
    .command("decide")
    .description("decides about an order, an event or a device; shows it first, and decides with --yes");
  const add = (name: string, kind: Kind, what: string): void => {
    const command = decisions
      .command(name)
      .description(what)
      .requiredOption("--client <slug or id>", "whose order it is")
      .option("--order <id>", "all of an order, by the shop's own id")
      .option("--event <id>", "the line that an event made: a sale, a lead, an install")
      .requiredOption("--reason <text>", "why, in words; kept with the decision");
    const partner = isCredit(kind) ? " --partner 3" : "";
    addOptions(command, kind)
      .option("--id <uuid>", "of the decision: the same one again counts once")
      .option("--wait-for-sale", "decide about an order that is unknown yet: it waits for its sale")
      .option("--actor <e-mail>", "who decides, beside the account of this machine")
      .option("--yes", "decide it")
      .option("--json", "as JSON")
      .addHelpText(
        "before",
        `Examples:\n  $ tributary decide ${name} --client casa-verde --order ` +
          `A-1001${partner} --reason 'agreed by phone' --yes\n` +
          `  $ tributary decide ${name} --client casa-verde --event lead-77${partner} --reason 'checked' --yes\n` +
          (kind === "release" ? KEEP_EXAMPLE : ""),
      )
      .action(decide(kind));
  };
  add("assign", "assign", "credits a partner for the lines that are credited to none");
  add("reattribute", "reattribute", "moves the whole order to a partner");
  add("take-back", "take_back", "takes the credit back, to no partner");
  add("release", "release", "makes a held commission payable");
  add("reject", "reject", "confirms fraud: no partner is credited any more, and what was held is reversed");
  unlinkCommand(decisions);
  undoImportCommand(decisions);
  add("refund", "refund", "gives back all of a sale, a product of it, or an amount; commissions follow");
};
