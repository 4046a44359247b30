// Decisions of an operator about an order or an event, refunds too: shows what it is about first,
// and decides with --yes.

import { randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import { type Command, Option } from "commander";
import type pg from "pg";
import { toDecimal } from "../../../../domain/money.ts";
import type { Client } from "../../../../domain/reference/reference.ts";
import { REFUND_REASONS } from "../../../../domain/refunds.ts";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { Refused, UsageError } from "../../../../infra/runtime/refused.ts";
import { writeAudit } from "../../../../modules/base/audit/audit.ts";
import { actorOf, beginOperation } from "../../../../modules/base/operations/operations.ts";
import { referenceNow } from "../../../../modules/catalog/clients/find-client.ts";
import { creditable, creditRefused } from "../../../../modules/money/orders/creditable.ts";
import {
  auditOf,
  type Credited,
  claimOf,
  type Decided,
  linesOf,
  memoryKeyOf,
  type Refunded,
  type Subject,
} from "../../../../modules/money/orders/decide.ts";
import { lineOfEvent } from "../../../../modules/money/orders/line-of-event.ts";
import { isOvertaken, orderLines, whenSettled } from "../../../../modules/money/orders/order-lines.ts";
import { type AskedBack, refundable } from "../../../../modules/money/orders/refundable.ts";
import { rememberedOrders } from "../../../../modules/money/orders/remembered.ts";
import { emptyOrder, type OrderState } from "../../../../processors/settle/order.ts";
import { addresses } from "../../config.ts";
import { publishDecisions, withAudit } from "../../connections.ts";
import { clientOf, withPool } from "../../pool.ts";
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
  readonly cause?: Refunded["cause"];
  readonly refundId?: string;
  readonly reason: string;
  readonly id?: string;
  readonly actor?: string;
  readonly waitForSale?: boolean;
  readonly yes?: boolean;
  readonly json?: boolean;
}
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const idOf = (flag: string, text: string | undefined): number | null => {
  if (text === undefined) return null;
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new UsageError(`${flag}: ${text} is not an id`);
  return Number(text);
};

/** Throws UsageError unless the partner, and the campaign if one is named, may be credited now. */
const checkCredit = async (
  pool: pg.Pool,
  client: Client,
  { partner_id, campaign_id }: Pick<Credited, "partner_id" | "campaign_id">,
): Promise<void> => {
  if (partner_id === null) throw new UsageError("--partner: name the partner by id");
  const found = await transaction(
    pool,
    [client.client_id],
    (tx) => creditable(tx, client.client_id, { partner_id, campaign_id }),
    { isReadOnly: true },
  );
  const refused = creditRefused(found, campaign_id);
  if (refused === undefined) return;
  if (refused === "campaign_not_of_client")
    throw new UsageError(`--campaign: ${campaign_id} is none of ${client.slug}`);
  if (refused === "partner_archived") throw new UsageError(`--partner: ${partner_id} is archived`);
  const known = (await referenceNow(pool)).partnersOf(client.client_id);
  const names = known.map((partner) => `${partner.partner_id} ${partner.name}`);
  throw new UsageError(
    `--partner: ${partner_id} does not work for ${client.slug}; these do: ${names.join(", ") || "none"}`,
  );
};

const amount = (minor: bigint | null, currency: string | null): string | null =>
  minor === null ? null : toDecimal(minor, currency ?? "MXN");

const showOrder = async (pool: pg.Pool, client: Client, orderId: string): Promise<void> => {
  const lines = await orderLines(pool, client.client_id, orderId);
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

/** An order, or the line that an event made: leads, installs and custom sales have no order id. */
const subjectOf = async (pool: pg.Pool, client: Client, { order, event, product }: DecideOptions): Promise<Subject> => {
  if ((order === undefined) === (event === undefined)) throw new UsageError("name one of --order and --event");
  if (order !== undefined) return { order_id: order, product_id: product };
  if (product !== undefined) throw new UsageError("--product: an event says by itself which line it is of");
  const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops" });
  try {
    const line = await lineOfEvent({ clickhouse, pool }, client.client_id, event!);
    if (line !== undefined) return { line };
    throw new UsageError(`--event: no sale, lead or install of ${client.slug} is known by the id ${event}`);
  } finally {
    await clickhouse.close();
  }
};

const showSubject = async (pool: pg.Pool, client: Client, about: Subject): Promise<void> => {
  if ("order_id" in about) return showOrder(pool, client, about.order_id);
  const { order_key, event, copy } = about.line;
  const { custom_name, t, event_id } = copy ?? event;
  const isOfAll = copy === null ? "" : ", a copy of the lines that its order had";
  print(`${custom_name ?? t} ${event_id}${isOfAll}, settled as ${order_key}; tributary explain shows all of it`);
};

type About = Pick<Decided, "client_id" | "subject">;
const orderNow = (pool: pg.Pool, about: About): Promise<Pick<OrderState, "lines" | "refunds">> =>
  transaction(
    pool,
    [about.client_id],
    async (tx) => {
      const key = memoryKeyOf(about);
      const { lines, refunds } = (await rememberedOrders(tx, [key])).get(key) ?? emptyOrder;
      return { lines: linesOf(about.subject, lines), refunds };
    },
    { isReadOnly: true },
  );

/** The audit and the log: what cannot be recorded is not decided. */
const put = async (pool: pg.Pool, decided: Decided, actor: string): Promise<void> => {
  const { lines } = await orderNow(pool, decided);
  const { decision_id, client_id, kind, reason, subject } = decided;
  const what = "order_id" in subject ? `order ${subject.order_id}` : `event ${subject.line.event.event_id}`;
  const plan = { kind: "decision" as const, actor, target: `${kind} of ${what}, client ${client_id}`, reason };
  await withAudit(async (audit) => {
    const operation = await beginOperation(audit, plan, { decision_id });
    await transaction(pool, [client_id], async (tx) => {
      const act = { actor, role: "operator", request_id: decision_id, ip: null };
      await writeAudit(tx, act, auditOf(decided, lines));
      await publishDecisions([claimOf(decided)]);
    });
    await operation.end("succeeded", { decision_id });
  });
};

type Kind = Decided["kind"];

/** A mistyped id would wait for ever, and credit the order that is once called so. */
const refuseUnknown = ({ order, waitForSale = false, client }: DecideOptions): void => {
  if (waitForSale) return;
  throw new Refused(
    `order ${order} of ${client} is unknown, and nothing was decided: look for it with tributary explain ${order} ` +
      "--order, or add --wait-for-sale to decide it for when its sale comes",
  );
};

/** An assignment takes what no partner has; one that is sent again by its id counts once. */
export const refuseIdle = (
  kind: Kind,
  { id, order, event }: Pick<DecideOptions, "id" | "order" | "event">,
  lines: readonly { readonly partner_id: number | null }[],
): void => {
  if (kind !== "assign" || id !== undefined || lines.some(({ partner_id }) => partner_id === null)) return;
  throw new Refused(
    `all of ${order ?? event} is credited already, so assigning it changes nothing, and nothing was decided; ` +
      "tributary decide reattribute moves it",
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

const FLAGS = { amount: "--amount", currency: "--currency" } as const;

/**
 * Throws UsageError for what cannot be given back. An order that is not known has nothing to give
 * back, and its refund would wait unseen.
 */
const amountOf = async (pool: pg.Pool, about: About, given: AskedBack): Promise<Refunded["amount"]> => {
  const order = await orderNow(pool, about);
  if (order.lines.length === 0) throw new UsageError("nothing was sold under that order and product: name what was");
  const asked = refundable(order, given);
  if (asked.kind === "ok") return asked.amount;
  throw new UsageError(asked.field === null ? asked.detail : `${FLAGS[asked.field]}: ${asked.detail}`);
};

const isCredit = (kind: Kind): boolean => kind === "assign" || kind === "reattribute";

/** "overtaken": another decision came first, and the lines are credited to others. */
const statusOf = async (pool: pg.Pool, decided: Decided): Promise<"accepted" | "applied" | "overtaken"> => {
  const settled = (await whenSettled(pool, [decided.decision_id])).get(decided.decision_id);
  if (settled === undefined) return "accepted";
  if (decided.kind !== "assign") return "applied";
  const { lines } = await orderNow(pool, decided);
  return isOvertaken(settled, decided.partner_id!, lines) ? "overtaken" : "applied";
};

const decide = (kind: Kind) => (options: DecideOptions) =>
  withPool(async (pool) => {
    if (options.id !== undefined && !UUID.test(options.id)) throw new UsageError("--id: give a UUID in lower case");
    const client = await clientOf(pool, options.client);
    const actor = actorOf(options.actor);
    const partner_id = idOf("--partner", options.partner);
    const campaign_id = idOf("--campaign", options.campaign);
    if (isCredit(kind)) await checkCredit(pool, client, { partner_id, campaign_id });
    const decision_id = options.id ?? randomUUID();
    const subject = await subjectOf(pool, client, options);
    if (!options.json) await showSubject(pool, client, subject);
    const { reason, cause = "other", refundId: refund_id = null } = options;
    const about = { client_id: client.client_id, subject };
    const said = { ...about, decision_id, reason, actor: `operator:${userInfo().username}`, at: Date.now() };
    const decided: Decided =
      kind === "refund"
        ? { ...said, kind, cause, refund_id, amount: await amountOf(pool, about, { ...options, decision_id }) }
        : { ...said, kind, partner_id, campaign_id };
    const { lines } = await orderNow(pool, about);
    if (lines.length === 0) refuseUnknown(options);
    else refuseIdle(kind, options, lines);
    const money = await decidedMoney(
      pool,
      client.client_id,
      lines.map(({ event_id }) => event_id),
      claimOf(decided),
    );
    if (!options.json) showMoney(money, client);
    if (!options.yes) {
      if (options.json) printJson({ decision_id, status: "not decided", money });
      return tell("nothing was decided; add --yes to decide it");
    }
    await put(pool, decided, actor);
    const status = await statusOf(pool, decided);
    if (options.json) printJson({ decision_id, status, money });
    else print(`${status}: decision ${decision_id}`);
    if (status === "accepted") tell("it is in the log and was not applied within 5 s; see: tributary lag");
  });

/** What one kind takes beside what all of them take. */
const addOptions = (command: Command, kind: Kind): Command => {
  if (isCredit(kind))
    return command.requiredOption("--partner <id>", "who is credited").option("--campaign <id>", "for which campaign");
  if (kind !== "refund") return command;
  return command
    .option("--product <id>", "one product of the order; without it, all of the order")
    .option("--amount <decimal>", "how much, e.g. 100.00; without it, all that is left")
    .option("--currency <code>", "of the amount, where the sale is in several")
    .addOption(new Option("--cause <code>", "why, in the words of refunds").choices(REFUND_REASONS).default("other"))
    .option("--refund-id <id>", "by which it meets what the shop or the processor reports of the same refund");
};

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
          `  $ tributary decide ${name} --client casa-verde --event lead-77${partner} --reason 'checked' --yes\n`,
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
