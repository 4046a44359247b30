// The route of one order.
import { orderView } from "../../../../modules/money/orders/order-view.ts";
import { readOrder } from "../../contract/sales/orders.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => [
  route(readOrder, async ({ read, params, query }) => ({
    body: await orderView(clickhouse, read, { ...params, ...query }),
  })),
];
