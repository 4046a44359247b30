// What the archive still holds of clients with a shorter retention than its own.

import type { Command } from "commander";
import { print, printJson, table, tell } from "../../../../infra/runtime/output.ts";
import { archiving } from "../../../../modules/log/groups/archive-group.ts";
import { clientRetentions, purgeArchive } from "../../../../modules/privacy/retention.ts";
import { keptSinceText } from "../../../../sinks/archive/purge.ts";
import { withObjects } from "../../connections.ts";
import { withPool } from "../../pool.ts";

const show = (_options: object, command: Command): Promise<void> =>
  withObjects((objects) =>
    withPool(async (pool) => {
      const { json } = command.optsWithGlobals<{ json?: boolean }>();
      const now = Date.now();
      const clients = await clientRetentions(pool);
      const open = { now, isClosing: () => false, isDry: true };
      const { files, records, byClient, damaged } = await purgeArchive(pool, objects, archiving.topic, open);
      const rows = clients.map(({ clientId, slug, months }) => ({
        client_id: clientId,
        slug,
        retention_months: months,
        kept_since: keptSinceText(months, now),
        due: byClient.get(clientId) ?? 0,
      }));
      if (json) printJson({ clients: rows, files, records, damaged });
      else {
        const cells = rows.map((row) => [row.client_id, row.slug, row.retention_months, row.kept_since, row.due]);
        print(table(["id", "client", "months", "kept since (UTC)", "events to go"], cells));
        print(`${records} events of ${files} files are due`);
      }
      for (const { key, message } of damaged) tell(`damaged: ${key}: ${message}`);
      if (damaged.length > 0) process.exitCode = 1;
      if (!json) tell("nothing was changed; the keeper takes out what is due, once a day");
    }),
  );

/** A command below `archive`. */
export const retentionCommand = (archive: Command): void => {
  archive
    .command("retention")
    .description("how long each client keeps its events, and how many of the archive are due to go; changes nothing")
    .option("--dry-run", "only shows, as it always does: the keeper takes them out")
    .option("--json", "as JSON")
    .addHelpText(
      "before",
      "Examples:\n  $ tributary archive retention --dry-run\n  $ tributary archive retention --json\n",
    )
    .action(show);
};
