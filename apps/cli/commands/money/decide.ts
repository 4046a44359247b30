// Decisions of an operator about an order: shows the order first, and decides with --yes.

import { randomUUID } from "node:crypto";
import { userInfo } from "node:os";
import type { Command } from "commander";
import type pg from "pg";
import { toDecimal } from "../../../../domain/money.ts";
import type { Client } from "../../../../domain/reference/reference.ts";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { UsageError } from "../../../../infra/runtime/refused.ts";
import { type LineOfEvent, lineOfEvent } from "../../../../modules/decisions/line-of-event.ts";
import { isSettled, orderLines } from "../../../../modules/decisions/order-lines.ts";
import { referenceNow } from "../../../../modules/reference/find-client.ts";
import { decisionOnLine, decisionOnOrder } from "../../../../processors/settle/decision-claim.ts";
import type { Claim, DecisionKind } from "../../../../schemas/generated.ts";
import { addresses } from "../../config.ts";
import { clientOf, publishDecisions, withPool } from "../../connections.ts";

interface DecideOptions {
  readonly client: string;
  readonly order?: string;
  readonly event?: string;
  readonly partner?: string;
  readonly campaign?: string;
  readonly reason: string;
  readonly id?: string;
  readonly yes?: boolean;
  readonly json?: boolean;
}
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/**
 * As long as the API waits for a decision to be applied (docs/design/contracts.md, "Decisions").
 */
const APPLIED_WITHIN_MS = 5_000;
const ASKED_EVERY_MS = 100;

/** False when it takes longer than anybody waits for a command. */
const isApplied = async (pool: pg.Pool, client: Client, id: string): Promise<boolean> => {
  const end = performance.now() + APPLIED_WITHIN_MS;
  while (!(await isSettled(pool, client.client_id, id))) {
    if (performance.now() > end) return false;
    await new Promise((resolve) => setTimeout(resolve, ASKED_EVERY_MS));
  }
  return true;
};

const idOf = (flag: string, text: string | undefined): number | null => {
  if (text === undefined) return null;
  if (!/^[1-9]\d{0,9}$/.test(text)) throw new UsageError(`${flag}: ${text} is not an id`);
  return Number(text);
};

/** Throws UsageError unless the partner works for the client now. */
const checkPartner = async (pool: pg.Pool, client: Client, partnerId: number | null): Promise<void> => {
  if (partnerId === null) throw new UsageError("--partner: name the partner by id");
  const at = await referenceNow(pool);
  if (at.partner(partnerId)?.client_ids.includes(client.client_id)) return;
  const known = at.partnersOf(client.client_id).map(({ partner_id, name }) => `${partner_id} ${name}`);
  throw new UsageError(
    `--partner: ${partnerId} does not work for ${client.slug}; these do: ${known.join(", ") || "none"}`,
  );
};

const amount = (minor: bigint | null, currency: string | null): string | null =>
  minor === null ? null : toDecimal(minor, currency ?? "MXN");

const showOrder = async (pool: pg.Pool, client: Client, orderId: string): Promise<void> => {
  const lines = await orderLines(pool, client.client_id, orderId);
  if (lines.length === 0) return print(`Order ${orderId} is unknown; with --yes the decision waits for it.`);
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

type Subject = { readonly orderId: string } | { readonly line: LineOfEvent };

/** An order, or the line that an event made: leads, installs and custom sales have no order id. */
const subjectOf = async (pool: pg.Pool, client: Client, { order, event }: DecideOptions): Promise<Subject> => {
  if ((order === undefined) === (event === undefined)) throw new UsageError("name one of --order and --event");
  if (order !== undefined) return { orderId: order };
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
  if ("orderId" in about) return showOrder(pool, client, about.orderId);
  const { order_key, event } = about.line;
  print(
    `${event.custom_name ?? event.t} ${event.event_id}, settled as ${order_key}; tributary explain shows all of it`,
  );
};

const claimAbout = (client: Client, about: Subject, said: Parameters<typeof decisionOnOrder>[2]): Claim =>
  "orderId" in about
    ? decisionOnOrder(client.client_id, about.orderId, said)
    : { ...decisionOnLine(client.client_id, about.line.event, said), order_key: about.line.order_key };

const decide = (kind: DecisionKind, needsPartner: boolean) => (options: DecideOptions) =>
  withPool(async (pool) => {
    if (options.id !== undefined && !UUID.test(options.id)) throw new UsageError("--id: give a UUID in lower case");
    const client = await clientOf(pool, options.client);
    const partner_id = needsPartner ? idOf("--partner", options.partner) : null;
    if (needsPartner) await checkPartner(pool, client, partner_id);
    const decision_id = options.id ?? randomUUID();
    const about = await subjectOf(pool, client, options);
    if (!options.json) await showSubject(pool, client, about);
    if (!options.yes) return tell("nothing was decided; add --yes to decide it");
    const claim = claimAbout(client, about, {
      decision_id,
      kind,
      actor: `operator:${userInfo().username}`,
      partner_id,
      campaign_id: idOf("--campaign", options.campaign),
      reason: options.reason,
      at: Date.now(),
      flags: [],
      review_from: 101,
      reject_from: 101,
    });
    await publishDecisions([claim]);
    const status = (await isApplied(pool, client, decision_id)) ? "applied" : "accepted";
    if (options.json) printJson({ decision_id, status });
    else print(`${status}: decision ${decision_id}`);
  });

export const decideCommands = (program: Command): void => {
  const decisions = program
    .command("decide")
    .description("decides about an order; shows it first, and decides with --yes");
  const add = (name: string, kind: DecisionKind, what: string, needsPartner = false): void => {
    const command = decisions
      .command(name)
      .description(what)
      .requiredOption("--client <slug or id>", "whose order it is")
      .option("--order <id>", "all of an order, by the shop's own id")
      .option("--event <id>", "the line that an event made: a sale, a lead, an install")
      .requiredOption("--reason <text>", "why, in words; kept with the decision");
    if (needsPartner)
      command.requiredOption("--partner <id>", "who is credited").option("--campaign <id>", "for which campaign");
    command
      .option("--id <uuid>", "of the decision: the same one again counts once")
      .option("--yes", "decide it")
      .option("--json", "as JSON")
      .addHelpText(
        "before",
        `Examples:\n  $ tributary decide ${name} --client casa-verde --order ` +
          `A-1001${needsPartner ? " --partner 3" : ""} --reason 'agreed by phone' --yes\n` +
          `  $ tributary decide ${name} --client casa-verde --event ` +
          `lead-77${needsPartner ? " --partner 3" : ""} --reason 'checked' --yes\n`,
      )
      .action(decide(kind, needsPartner));
  };
  add("assign", "assign", "credits a partner for the lines that are credited to none", true);
  add("reattribute", "reattribute", "moves the whole order to a partner", true);
  add("take-back", "take_back", "takes the credit back, to no partner");
  add("release", "release", "makes a held commission payable");
  add("reject", "reject", "confirms fraud: no partner is credited any more, and what was held is reversed");
};
