// The route of sales without a partner.

import { divideHalfEven, toDecimal } from "../../../../domain/money.ts";
import { orUnavailable } from "../../../../infra/http/problem.ts";
import {
  type SoldEvent,
  type SoldEventName,
  soldEvent,
  soldEvents,
  soldEventsOrNone,
} from "../../../../modules/money/orders/sold-events.ts";
import {
  currencyOf,
  type SumOfSales,
  sumsOfSales,
  unattributedRows,
} from "../../../../modules/money/orders/unattributed-sales.ts";
import { listUnattributed } from "../../contract/sales/orders.ts";
import { notFound } from "../../request/accept.ts";
import { spanOf } from "../../request/range.ts";
import { type ApiPorts, type Complete, type Route, route } from "../../route.ts";

const USUAL_CURRENCY = "MXN";
const away = orUnavailable("the events of these sales cannot be read now", 2);

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => {
  const complete: Complete = async (rows, _scope, { isFile }) => {
    const named = rows as readonly SoldEventName[];
    const events = isFile ? await soldEvents(clickhouse, named).catch(away) : await soldEventsOrNone(clickhouse, named);
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

  return [
    route(listUnattributed, async ({ list, read, query }) => {
      const { client_id } = query;
      const filter = { ...query, ...spanOf(query, Date.now()) };
      const own = await read(async (tx, { clients }) =>
        client_id === undefined ? USUAL_CURRENCY : currencyOf(tx, clients, client_id),
      );
      if (own === undefined) throw notFound();
      return list(unattributedRows(filter), complete, async (tx, { clients }) => ({
        summary: summaryOf(await sumsOfSales(tx, clients, filter), own),
      }));
    }),
  ];
};

/** The first candidate that lost and names a partner. */
const bestOf = (event: SoldEvent | undefined) => {
  const found = event?.candidates.find(({ partner_id, outcome }) => partner_id !== null && outcome !== "won");
  return found === undefined ? null : { partner_id: found.partner_id, method: found.method, why_lost: found.outcome };
};

/** Four decimals; null when there is nothing to divide by. */
const ratio = (part: bigint, whole: bigint): number | null =>
  whole === 0n ? null : Number(divideHalfEven(part * 10_000n, whole)) / 10_000;

const summaryOf = (sums: readonly SumOfSales[], currency: string) => {
  const total = (taken: readonly SumOfSales[]) => ({
    count: taken.reduce((sum, one) => sum + one.count, 0),
    minor: taken.reduce((sum, one) => sum + one.value_minor, 0n),
  });
  const meant = sums.filter(({ isMeant }) => isMeant);
  const inOne = (code: string) => {
    const [part, whole] = [meant, sums].map((some) => total(some.filter((one) => one.currency === code)));
    return { value: toDecimal(part!.minor, code), revenue_share: ratio(part!.minor, whole!.minor) };
  };
  const reasons = [...new Set(meant.map(({ reason }) => reason))];
  const others = [...new Set(sums.map((one) => one.currency))].filter((code) => code !== currency).sort();
  const count = total(meant).count;
  return {
    count,
    share: ratio(BigInt(count), BigInt(total(sums).count)),
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
