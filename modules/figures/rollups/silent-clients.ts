// Finds clients whose events have stopped: a shop without its pixel, or a sender without its key.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { cond, count, readRows, scopeOf } from "../../../infra/clickhouse/query.ts";

/**
 * With fewer events in an hour a silence of 15 minutes may be chance: of 100 it is so once in
 * 10,000,000,000 times.
 */
const BUSY = 100;

/** The clients that sent at least `BUSY` events between 75 and 15 minutes ago, and none since. */
export const silentClients = async (clickhouse: Clickhouse, clients: readonly number[]): Promise<readonly number[]> => {
  if (clients.length === 0) return [];
  const rows = await readRows(clickhouse, scopeOf(...clients), {
    from: "rollups",
    columns: {
      client_id: count("client_id"),
      before: count("sumIf(events, bucket < now() - interval 15 minute)"),
      since: count("sumIf(events, bucket >= now() - interval 15 minute)"),
    },
    where: [cond`grain = 'minute' and bucket >= now() - interval 75 minute`],
    groupBy: ["client_id"],
  });
  return rows.filter(({ before, since }) => before >= BUSY && since === 0).map(({ client_id }) => client_id);
};
