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
import { receiptCounts } from "../../../../modules/figures/receipts/receipts.ts";
import { entityOf } from "../../../../modules/money/decisions/decide.ts";
import { decisionsAbout } from "../../../../modules/money/decisions/decisions-about.ts";
import { eventsOfBatch, eventsOfOrder } from "../../../../modules/money/explain/batch-and-order.ts";
import { type Explanation, explain } from "../../../../modules/money/explain/explanation.ts";
import { allClients } from "../../../../modules/money/explain/money-of.ts";
import { batchIdKey, readBatchId } from "../../../../processors/admit/batch-id.ts";
import { addresses, keyring } from "../../config.ts";
import { clientOf, withPool } from "../../pool.ts";
import { type ExplanationWithDecisions, printed } from "./explain-print.ts";

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
  return { ...found, versions: [newest], decisions };
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

const explainId = (id: string, { client, order: isOrder = false, json }: ExplainOptions): Promise<void> =>
  withPool(async (pool) => {
    const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops", connections: 2 });
    const stores = { clickhouse, pool };
    try {
      if (id.startsWith("bat_")) return await explainBatch(stores, id, json);
      const clientIds = client === undefined ? await allClients(pool) : [(await clientOf(pool, client)).client_id];
      const ofEvent = isOrder ? [] : await explain(stores, id, clientIds);
      const found = ofEvent.length > 0 ? ofEvent : await ofOrder(stores, id, clientIds);
      if (found.length === 0)
        throw new Error(
          `no ${isOrder ? "order" : "event and no order"} ${id} is stored` +
            `${client === undefined ? "" : ` for ${client}`}: it may be on its way (tributary lag), refused at ` +
            "the edge, or without consent to be kept",
        );
      const events: ExplanationWithDecisions[] = [];
      for (const one of found) events.push(await explained(pool, one));
      if (json) return printJson({ events: lasting(events) });
      print(events.map(printed).join("\n\n"));
      const others = ofEvent.length === 0 ? [] : await eventsOfOrder(pool, clientIds, id);
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
