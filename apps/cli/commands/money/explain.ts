// Explains an event, an order or a batch: what was considered, what was decided, on which facts,
// and what it earned.
import type { Command } from "commander";
import type pg from "pg";
import type { Clickhouse } from "../../../../infra/clickhouse/client.ts";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../../infra/clickhouse/query.ts";
import { transaction } from "../../../../infra/postgres/sql.ts";
import { UsageError } from "../../../../infra/runtime/command-errors.ts";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { within } from "../../../../infra/runtime/timing/time-limit.ts";
import { clientIds } from "../../../../modules/catalog/clients/client-ids.ts";
import { receiptCounts } from "../../../../modules/figures/receipts/receipts.ts";
import { entityOf } from "../../../../modules/money/decisions/decide.ts";
import { decisionsAbout } from "../../../../modules/money/decisions/decisions-about.ts";
import { eventsOfBatch, eventsOfOrder } from "../../../../modules/money/explain/batch-and-order.ts";
import { type Explanation, explain } from "../../../../modules/money/explain/explanation.ts";
import { type LetterAbout, lettersAbout } from "../../../../modules/money/explain/letters-about.ts";
import { eventNames } from "../../../../modules/money/orders/event-names.ts";
import { batchIdKey, readBatchId } from "../../../../processors/admit/batch-id.ts";
import { addresses, keyring } from "../../config.ts";
import { clientOf, withPool } from "../../pool.ts";
import { type ExplanationWithDecisions, lettersTable, printed } from "./explain-print.ts";
import type { FirstCredit } from "./first-credit.ts";

/** The log is asked for what the stores do not keep, so that an explanation stands without it. */
const LOG_MS = 20_000;
const LATE = `the log does not answer within ${LOG_MS / 1_000} s`;

interface Stores {
  readonly clickhouse: Clickhouse;
  readonly pool: pg.Pool;
}
interface ExplainOptions {
  readonly client?: string;
  readonly order?: boolean;
  readonly json?: boolean;
}

/** Only the newest version is shown: older ones exist until the store merges them away. */
const explained = async (pool: pg.Pool, found: Explanation): Promise<ExplanationWithDecisions> => {
  const { client_id } = found.client;
  const newest = found.versions[0]!;
  const entity = entityOf(client_id, newest.order_id, newest.merged_into ?? found.event_id);
  const decisions = await transaction(pool, [client_id], (tx) => decisionsAbout(tx, client_id, entity), {
    isReadOnly: true,
  });
  const mentioned = [found, ...found.copies, ...(found.order?.lines ?? [])].map(({ event_id }) => event_id);
  const eventIds = [...new Set([...mentioned, ...(newest.merged_into === null ? [] : [newest.merged_into])])];
  const letters = await lettersAbout(
    pool,
    eventIds.map((event_id) => ({ client_id, event_id })),
  );
  const first_credit = decisions.length > 0 && newest.version > 1 ? await firstKnown(found) : null;
  return { ...found, versions: [newest], first_credit, decisions, letters };
};

/** Only what people decided about is looked up in the log, which is slow to load and to read. */
const firstKnown = async (found: Explanation): Promise<FirstCredit | null> => {
  const { firstCreditOf } = await import("./first-credit.ts");
  return within(LOG_MS, firstCreditOf(found), LATE).catch((error: Error) => {
    tell(`version 1 of ${found.event_id} cannot be read now: ${error.message}`);
    return null;
  });
};

/** The letters of an id of which nothing is stored, and what is not known of them. */
const lettersOf = async (
  pool: pg.Pool,
  id: string,
  clientIds: readonly number[],
  isOrder: boolean,
): Promise<{ readonly letters: readonly LetterAbout[]; readonly unknown?: string }> => {
  const ofEvent = isOrder ? [] : await lettersAbout(pool, eventNames(id, clientIds));
  if (ofEvent.length > 0) return { letters: ofEvent };
  const { lettersOfOrder } = await import("./letters-of-order.ts");
  try {
    const { letters, isWhole } = await within(LOG_MS, lettersOfOrder(pool, clientIds, id), LATE);
    return isWhole ? { letters } : { letters, unknown: "only the newest were read, see tributary dlq list" };
  } catch (error) {
    return { letters: [], unknown: `they cannot be read: ${(error as Error).message}` };
  }
};

/** Throws: nothing is stored under the id. Shows first what lies in the dead letters. */
const explainNothing = async (
  pool: pg.Pool,
  id: string,
  clientIds: readonly number[],
  { client, order: isOrder = false, json }: ExplainOptions,
): Promise<never> => {
  const what = isOrder ? "order" : "event and no order";
  const nothing = `no ${what} ${id} is stored${client === undefined ? "" : ` for ${client}`}: `;
  const { letters, unknown } = await lettersOf(pool, id, clientIds, isOrder);
  if (letters.length === 0)
    throw new Error(
      `${nothing}it may be on its way (tributary lag), refused at the edge, or without consent to be kept` +
        (unknown === undefined ? "" : `; or in the dead letters (${unknown})`),
    );
  if (json) printJson({ events: [], letters });
  else print(lettersTable(letters));
  throw new Error(`${nothing}it lies in the dead letters; the record and its failures: tributary dlq show <letter>`);
};

/** `stored_at` does not affect equality. */
const lasting = (events: readonly ExplanationWithDecisions[]): unknown =>
  JSON.parse(
    JSON.stringify(events, (name, value) =>
      name === "stored_at" ? undefined : typeof value === "bigint" ? value.toString() : value,
    ),
  );

const explainBatch = async ({ clickhouse }: Stores, id: string, json: boolean | undefined): Promise<void> => {
  const batch = readBatchId(id, keyring().accepted.map(batchIdKey));
  if (batch === undefined) throw new UsageError(`${id} is no batch id of this installation: copy all of it`);
  const { client_id, received_at, accepted, rejected, withheld, tag } = batch;
  const counts = await receiptCounts(clickhouse, scopeOf(client_id), tag);
  const stored = [...counts].filter(([fate]) => fate !== "second_copy").reduce((sum, [, events]) => sum + events, 0);
  const events = await eventsOfBatch(clickhouse, client_id, tag);
  const said = {
    batch_id: id,
    client_id,
    received_at: new Date(received_at).toISOString(),
    accepted,
    rejected,
    withheld,
  };
  if (json) return printJson({ ...said, stored, fates: Object.fromEntries(counts), events });
  print(
    `batch of client ${client_id}, received ${said.received_at}: ${accepted} accepted, ${rejected} rejected, ` +
      `${withheld} without consent to be kept`,
  );
  if (counts.size > 0) print(table(["became", "events"], [...counts]));
  const missing = accepted - withheld - [...counts.values()].reduce((sum, events) => sum + events, 0);
  if (missing > 0) print(`${missing} were there before (sent again), or are on their way: tributary lag`);
  if (rejected > 0) print("what was rejected, and why, stood in the answer of the batch alone");
  if (events.length > 0)
    print(
      table(
        ["event", "version"],
        events.map(({ event_id, version }) => [event_id, version]),
      ),
    );
  tell("one of them: tributary explain <event>; the sender's own question: GET /ingest/receipts/<batch id>");
};

const ofOrder = async (
  stores: Stores,
  order: string,
  clientIds: readonly number[],
): Promise<readonly Explanation[]> => {
  const found: Explanation[] = [];
  for (const { client_id, event_id } of await eventsOfOrder(stores.pool, clientIds, order))
    found.push(...(await explain(stores, event_id, [client_id])));
  return found;
};

const explainId = (id: string, options: ExplainOptions): Promise<void> =>
  withPool(async (pool) => {
    const { client, order: isOrder = false, json } = options;
    const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops", connections: 2 });
    const stores = { clickhouse, pool };
    try {
      if (id.startsWith("bat_")) return await explainBatch(stores, id, json);
      const ids =
        client === undefined
          ? await clientIds(pool, "tributary_reference")
          : [(await clientOf(pool, client)).client_id];
      const ofEvent = isOrder ? [] : await explain(stores, id, ids);
      const found = ofEvent.length > 0 ? ofEvent : await ofOrder(stores, id, ids);
      if (found.length === 0) return await explainNothing(pool, id, ids, options);
      const events: ExplanationWithDecisions[] = [];
      for (const one of found) events.push(await explained(pool, one));
      if (json) return printJson({ events: lasting(events) });
      print(events.map(printed).join("\n\n"));
      const others = ofEvent.length === 0 ? [] : await eventsOfOrder(pool, ids, id);
      if (others.length > 0) tell(`an order is called ${id} too: tributary explain ${id} --order`);
    } finally {
      await clickhouse.close();
    }
  });

export const explainCommands = (program: Command): void => {
  program
    .command("explain <id>")
    .description(
      "why an event was credited as it was, and what it earned: versions, candidates, fraud, rules, contracts, ledger",
    )
    .option("--client <slug or id>", "whose event it is; without it all clients are asked")
    .option("--order", "the id is an order's, though an event has it too")
    .option("--json", "everything, as JSON; amounts in minor units")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary explain order-1001 --client casa-verde\n  $ tributary explain " +
        "1f0c8e1e-5f0a-8c7e-9d1b-2a6f0e3b4c5d --json\n  $ tributary explain A-1001 --order\n" +
        "  $ tributary explain bat_AQAAAAEBmr...\n\nThe id of an event is the sender's own, or the one that " +
        "the event has in the log; the id of a batch is in\nits answer. What is said is the same before and " +
        "after merges, replays and rebuilds.\n",
    )
    .action(explainId);
};
