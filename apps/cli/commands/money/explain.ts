// Explains of one event what was considered, what was decided, on which facts, and what it earned.
import type { Command } from "commander";
import { openClickhouse } from "../../../../infra/clickhouse/client.ts";
import { print, printJson } from "../../../../infra/runtime/output.ts";
import { explain } from "../../../../modules/explain/explanation.ts";
import { allClients } from "../../../../modules/explain/money-of.ts";
import { addresses } from "../../config.ts";
import { clientOf, withPool } from "../../connections.ts";
import { printed } from "./explain-print.ts";

const explainEvent = (id: string, { client, json }: { client?: string; json?: boolean }): Promise<void> =>
  withPool(async (pool) => {
    const clickhouse = openClickhouse(addresses().clickhouseUrl, { name: "tributary-ops", connections: 2 });
    try {
      const clientIds = client === undefined ? await allClients(pool) : [(await clientOf(pool, client)).client_id];
      const found = await explain({ clickhouse, pool }, id, clientIds);
      if (found.length === 0)
        throw new Error(
          `no event ${id} is stored${client === undefined ? "" : ` for ${client}`}: it may be on its way ` +
            "(tributary lag), refused at the edge, or without consent to be kept",
        );
      if (json) printJson({ events: found });
      else print(found.map(printed).join("\n\n"));
    } finally {
      await clickhouse.close();
    }
  });

export const explainCommands = (program: Command): void => {
  program
    .command("explain <event_id>")
    .description(
      "why an event was credited as it was, and what it earned: versions, candidates, fraud, rules, contracts, ledger",
    )
    .option("--client <slug or id>", "whose event it is; without it all clients are asked")
    .option("--json", "everything, as JSON; amounts in minor units")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary explain order-1001 --client casa-verde\n  $ tributary explain " +
        "1f0c8e1e-5f0a-8c7e-9d1b-2a6f0e3b4c5d --json\n\nThe id is the sender's own, or the one that the " +
        "event has in the log.\n",
    )
    .action(explainEvent);
};
