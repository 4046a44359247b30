// Counts how often a rule was credited lately.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { bind, cond, count, readRows, scopeOf, unixMs } from "../../../infra/clickhouse/query.ts";
import { within } from "../../../infra/runtime/timing/time-limit.ts";
import { between } from "../../../sinks/analytics/reads.ts";

const DAYS_MS = 30 * 86_400_000;

/**
 * Counts events of the last 30 days; null if the count takes longer than `mostMs` or fails. A cheap
 * query over all versions finds the time range, and only that range is read for the newest
 * versions.
 */
export const ruleHits = (
  clickhouse: Clickhouse,
  { client_id, rule_id }: { readonly client_id: number; readonly rule_id: number },
  mostMs: number,
): Promise<number | null> => {
  const scope = scopeOf(client_id);
  const isCredited = cond`rule_id = ${bind("UInt32", rule_id)}`;
  const since = { first: Date.now() - DAYS_MS, last: Date.now() + DAYS_MS };
  const counted = async (): Promise<number> => {
    const [found] = await readRows(clickhouse, scope, {
      from: "events",
      columns: { versions: count("count()"), first: unixMs("min(ts)"), last: unixMs("max(ts)") },
      where: [between(since), isCredited],
    });
    if (found === undefined || found.versions === 0) return 0;
    const [row] = await readRows(clickhouse, scope, {
      from: "events_current",
      columns: { hits: count("count()") },
      where: [between(found), isCredited],
    });
    return row?.hits ?? 0;
  };
  return within(mostMs, counted(), "the hits of a rule are not known in time").catch(() => null);
};
