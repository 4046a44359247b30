// How often a rule was credited lately.
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { bind, cond, count, readRows, scopeOf } from "../../infra/clickhouse/query.ts";
import { within } from "../../infra/runtime/timing/within.ts";

const DAYS_MS = 30 * 86_400_000;

/** Events of the last 30 days; null when it is not known within `mostMs`, or not at all. */
export const ruleHits = (
  clickhouse: Clickhouse,
  { client_id, rule_id }: { readonly client_id: number; readonly rule_id: number },
  mostMs: number,
): Promise<number | null> =>
  within(
    mostMs,
    readRows(clickhouse, scopeOf(client_id), {
      from: "events_current",
      columns: { hits: count("count()") },
      where: [
        cond`ts >= fromUnixTimestamp64Milli(${bind("Int64", Date.now() - DAYS_MS)})`,
        cond`rule_id = ${bind("UInt32", rule_id)}`,
      ],
    }),
    "the hits of a rule are not known in time",
  ).then(
    ([row]) => row?.hits ?? 0,
    () => null,
  );
