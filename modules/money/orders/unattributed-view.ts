// Sales without a partner as the platform API lists them: with what their events say, and with the
// sums of all of them.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { orUnavailable } from "../../../infra/runtime/errors.ts";
import { ratio } from "../../figures/reads/ratios.ts";
import { type SoldEvent, type SoldEventName, soldEvent, soldEvents, soldEventsOrNone } from "./sold-events.ts";
import { type SumOfSales, sumsOfSales, type UnattributedFilter } from "./unattributed-sales.ts";

type Row = Readonly<Record<string, any>>;

/**
 * Adds source and best candidate of each sale. A page goes without them while ClickHouse does not
 * answer; a file lacks nothing. Throws Unavailable for a file.
 */
export const withEvents = async (
  clickhouse: Clickhouse,
  rows: readonly Row[],
  isFile: boolean,
): Promise<readonly Row[]> => {
  const names = rows as readonly SoldEventName[];
  const events = isFile
    ? await soldEvents(clickhouse, names).catch(eventsAway)
    : await soldEventsOrNone(clickhouse, names);
  return rows.map(({ value, refunded, ...row }) => {
    const event = soldEvent(events, row as unknown as SoldEventName);
    return {
      ...row,
      id: `sal_${row.event_id}`,
      value: toDecimal(value, row.currency),
      refunded: toDecimal(refunded, row.currency),
      source: event?.source ?? null,
      best_candidate: bestOf(event),
    };
  });
};

const eventsAway = orUnavailable("the events of these sales cannot be read now", 2);

/** The first candidate that lost and names a partner. */
const bestOf = (event: SoldEvent | undefined) => {
  const found = event?.candidates.find(({ partner_id, outcome }) => partner_id !== null && outcome !== "won");
  return found === undefined ? null : { partner_id: found.partner_id, method: found.method, why_lost: found.outcome };
};

/** Sums over all rows of the filter; `currency` is the one in which the first sums are given. */
export const unattributedSummary = async (
  tx: PoolClient,
  clients: readonly number[],
  filter: UnattributedFilter,
  currency: string,
) => {
  const sums = await sumsOfSales(tx, clients, filter);
  const meant = sums.filter(({ isMeant }) => isMeant);
  const inOne = (code: string) => {
    const [part, whole] = [meant, sums].map((some) => total(some.filter((one) => one.currency === code)));
    return { value: toDecimal(part!.minor, code), revenue_share: ratio(part!.minor, whole!.minor) };
  };
  const reasons = [...new Set(meant.map(({ reason }) => reason))];
  const others = [...new Set(sums.map((one) => one.currency))].filter((code) => code !== currency).sort();
  const { count } = total(meant);
  return {
    count,
    share: ratio(count, total(sums).count),
    ...inOne(currency),
    currency,
    by_reason: reasons.map((reason) => {
      const some = meant.filter((one) => one.reason === reason);
      const value = total(some.filter((one) => one.currency === currency)).minor;
      return { reason, count: total(some).count, value: toDecimal(value, currency) };
    }),
    other_currencies: others.map((code) => ({ currency: code, ...inOne(code) })),
  };
};

const total = (sums: readonly SumOfSales[]) => ({
  count: sums.reduce((sum, one) => sum + one.count, 0),
  minor: sums.reduce((sum, one) => sum + one.value_minor, 0n),
});
