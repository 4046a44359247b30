// The route of sales without a partner.
import { spanOf } from "../../../../modules/base/days.ts";
import { currencyOfSums, unattributedRows } from "../../../../modules/money/orders/unattributed-sales.ts";
import { unattributedSummary, withEvents } from "../../../../modules/money/orders/unattributed-view.ts";
import { listUnattributed } from "../../contract/sales/orders.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => [
  route(listUnattributed, async ({ list, read, query }) => {
    const filter = { ...query, ...spanOf(query, Date.now()) };
    const currency = await read((tx, { clients }) => currencyOfSums(tx, clients, query.client_id));
    return list(
      unattributedRows(filter),
      (rows, _scope, { isFile }) => withEvents(clickhouse, rows, isFile),
      async (tx, { clients }) => ({ summary: await unattributedSummary(tx, clients, filter, currency) }),
    );
  }),
];
