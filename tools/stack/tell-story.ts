// Sends the story, waits until every event is stored and every commission booked, prints the
// results, and reports where they differ from the story.
import { setTimeout as sleep } from "node:timers/promises";
import { clickIdKey } from "../../domain/click-id.ts";
import { toDecimal } from "../../domain/money.ts";
import { openClickhouse } from "../../infra/clickhouse/client.ts";
import { bind, cond, count, minor, optional, readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import { openPool, sql, transaction } from "../../infra/postgres/sql.ts";
import { table } from "../../infra/runtime/output.ts";
import { summary } from "../../modules/figures/reports/report.ts";
import type { Demo } from "../../modules/running/installation/seed.ts";
import { type Story, storyOf } from "./story.ts";

export interface Stage {
  readonly ingestUrl: string;
  readonly clickhouseUrl: string;
  readonly postgresUrl: string;
  readonly secret: string;
  readonly demo: Demo;
}
interface StoredEvent {
  readonly sender_event_id: string | null;
  readonly t: string;
  readonly order_id: string | null;
  readonly value_minor: bigint | null;
  readonly currency: string | null;
  readonly credit_status: string;
  readonly credit_method: string | null;
  readonly credit_reason: string | null;
  readonly partner_id: number | null;
  readonly merged_into: string | null;
  readonly version: number;
}
interface BookedLine {
  readonly order_id: string;
  readonly kind: string;
  readonly partner_id: number;
  readonly amount_minor: bigint;
  readonly currency: string;
  readonly formula: string;
}
const PATIENCE_MS = 60_000;
const POLL_MS = 250;
const SHOP = "casa-verde";

const becameOf = (row: StoredEvent | undefined): string => {
  if (row === undefined) return "not stored";
  if (row.merged_into !== null) return "merged";
  if (row.t === "refund") return "refund";
  return row.credit_status === "attributed" ? `attributed ${row.credit_method}` : `unattributed ${row.credit_reason}`;
};
const amountOf = (row: StoredEvent | undefined): string | null =>
  row?.value_minor == null || row.currency === null ? null : toDecimal(row.value_minor, row.currency);
const netOf = (booked: readonly BookedLine[], orderId: string): bigint =>
  booked.filter((entry) => entry.order_id === orderId).reduce((sum, entry) => sum + entry.amount_minor, 0n);

/** Everything that differs from the story; empty if nothing does. */
const problemsOf = (
  story: Story,
  refused: ReadonlySet<string>,
  stored: ReadonlyMap<string, StoredEvent>,
  booked: readonly BookedLine[],
): readonly string[] => [
  ...story.chapters.flatMap(({ event, expect }) => {
    const became = refused.has(event.event_id) ? "refused" : becameOf(stored.get(event.event_id));
    return became === expect ? [] : [`${event.event_id}: expected ${expect}, found ${became}`];
  }),
  ...[...story.commissions].flatMap(([orderId, expected]) => {
    const net = netOf(booked, orderId);
    return net === expected
      ? []
      : [`${orderId}: expected a commission of ${toDecimal(expected, "MXN")}, found ${toDecimal(net, "MXN")}`];
  }),
];

/** The stored rows of a story: its events by sender id, and its ledger entries. */
interface StoryRows {
  readonly stored: ReadonlyMap<string, StoredEvent>;
  readonly booked: readonly BookedLine[];
}

/** Returns the ids that the edge refused. Throws if it accepts nothing. */
const sendStory = async (
  { ingestUrl }: Stage,
  token: string,
  { chapters }: Story,
  print: (text: string) => void,
): Promise<ReadonlySet<string>> => {
  const response = await fetch(`${ingestUrl}/ingest/batch`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ events: chapters.map(({ event }) => event) }),
  });
  const answer = (await response.json()) as {
    accepted: number;
    rejected: number;
    errors: { event_id: string; code: string; field: string; message: string }[];
    detail?: string;
  };
  if (!response.ok) throw new Error(`the edge answered ${response.status}: ${answer.detail ?? "no detail"}`);
  print(`POST /ingest/batch: ${answer.accepted} accepted, ${answer.rejected} rejected`);
  for (const error of answer.errors) print(`  ${error.field}: ${error.message} (${error.code})`);
  return new Set(answer.errors.map(({ event_id }) => event_id));
};

const readStory = async (
  clickhouse: ReturnType<typeof openClickhouse>,
  pool: ReturnType<typeof openPool>,
  clientId: number,
  { prefix }: Story,
): Promise<StoryRows> => {
  const rows = await readRows(clickhouse, scopeOf(clientId), {
    from: "events",
    columns: {
      sender_event_id: optional(text("sender_event_id")),
      t: text("t"),
      order_id: optional(text("order_id")),
      value_minor: optional(minor("value_minor")),
      currency: optional(text("currency")),
      credit_status: text("credit_status"),
      credit_method: optional(text("credit_method")),
      credit_reason: optional(text("credit_reason")),
      partner_id: optional(count("partner_id")),
      merged_into: optional(text("merged_into")),
      version: count("version"),
    },
    where: [cond`startsWith(events.sender_event_id, ${bind("String", prefix)})`],
    orderBy: ["version"],
  });
  const { rows: booked } = await transaction(
    pool,
    [clientId],
    (tx) =>
      tx.query<BookedLine>(sql`select order_id, entry.kind, entry.partner_id, entry.amount_minor, entry.currency,
        entry.formula
        from ledger_entries entry join conversions using (client_id, conversion_id)
        where order_id like ${`${prefix}%`}
          order by entry.occurred_at, entry.conversion_id, entry.conversion_version`),
    { isReadOnly: true },
  );
  return { stored: new Map(rows.map((row) => [row.sender_event_id ?? "", row])), booked };
};

const chaptersTable = ({ chapters }: Story, refused: ReadonlySet<string>, { stored }: StoryRows): string =>
  table(
    ["what happened", "event", "value", "became", "partner", "version"],
    chapters.map(({ says, event }) => {
      const row = stored.get(event.event_id);
      const became = refused.has(event.event_id) ? "refused" : becameOf(row);
      return [says, String(event.t), amountOf(row), became, row?.partner_id ?? null, row?.version ?? null];
    }),
  );

const entriesTable = ({ booked }: StoryRows): string =>
  table(
    ["order", "entry", "partner", "amount", "currency", "formula"],
    booked.map(({ order_id, kind, partner_id, amount_minor, currency, formula }) => [
      ...[order_id, kind, partner_id, toDecimal(amount_minor, currency)],
      ...[currency, formula],
    ]),
  );

/**
 * Prints to `print` and resolves with the differences, none if all is as in the story. Throws if
 * the edge does not accept the story.
 */
export const tellStory = async (stage: Stage, print: (text: string) => void): Promise<readonly string[]> => {
  const shop = stage.demo.clients.find(({ slug }) => slug === SHOP);
  if (shop === undefined) throw new Error(`the demo client ${SHOP} is missing; remove .tributary to seed it again`);
  const now = Date.now();
  const links = Object.fromEntries(stage.demo.links.map(({ code, link_id }) => [code, link_id]));
  const story = storyOf(now.toString(36), shop.id, links, clickIdKey(stage.secret, 1), now);
  const refused = await sendStory(stage, shop.ingest_token, story, print);

  const clickhouse = openClickhouse(stage.clickhouseUrl);
  const pool = openPool(stage.postgresUrl, { name: "tributary-story", max: 2 });
  try {
    const deadline = performance.now() + PATIENCE_MS;
    let found = await readStory(clickhouse, pool, shop.id, story);
    while (problemsOf(story, refused, found.stored, found.booked).length > 0 && performance.now() < deadline) {
      await sleep(POLL_MS);
      found = await readStory(clickhouse, pool, shop.id, story);
    }
    print(`stored after ${((Date.now() - now) / 1_000).toFixed(1)} s\n`);
    print(chaptersTable(story, refused, found));
    print(`\n${entriesTable(found)}`);
    const { isBalanced, balance } = await summary(pool, [shop.id]);
    const amounts = balance.map(({ amount, currency }) => `${amount} ${currency}`).join(", ");
    print(`\nledger balance of ${SHOP}: ${amounts || "empty"}`);
    const problems = problemsOf(story, refused, found.stored, found.booked);
    return [...problems, ...(isBalanced ? [] : ["the ledger does not balance"])];
  } finally {
    await clickhouse.close();
    await pool.end();
  }
};
