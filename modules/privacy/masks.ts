// Reads the current consent of devices, from the log's copy in the analytics store.
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { bind, cond, count, readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";

/**
 * Returns for each device (`did` of the log) the mask of its latest choice, without the bits that
 * the privacy signals of its browser turned off. A device that never chose is absent; the mask that
 * came with its event applies then. Throws the server's error.
 */
export const latestMasks = async (
  clickhouse: Clickhouse,
  clientId: number,
  dids: readonly string[],
): Promise<ReadonlyMap<string, number>> => {
  if (dids.length === 0) return new Map();
  const rows = await readRows(clickhouse, scopeOf(clientId), {
    from: "consents",
    columns: { did: text("did"), mask: count("latest") },
    where: [cond`did in ${bind("Array(String)", dids)}`],
  });
  return new Map(rows.map(({ did, mask }) => [did, mask]));
};
