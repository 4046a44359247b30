// The routes of the earnings of a partner. Answers to the partner itself never contain revenue.

import { spanOf } from "../../../../modules/base/days.ts";
import { dashboardPartner, openPartnerFor } from "../../../../modules/catalog/partners/partner-detail.ts";
import { paymentRows } from "../../../../modules/catalog/partners/payments.ts";
import { partnerDashboard } from "../../../../modules/figures/dashboards/partner.ts";
import {
  orderRows,
  receiptKeyOf,
  shownOrders,
  shownToPartner,
  withFraud,
} from "../../../../modules/figures/reads/order-rows.ts";
import * as contracts from "../../contract/figures/partner-figures.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "clickhouse" | "positions" | "keyring" | "hosts">;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.readPartnerDashboard, async (ask) => {
    const { user, query, params } = ask;
    await checkFilter(ask, query.client_id);
    const wanted = { ...query, partner_id: params.id, isOwn: user.role === "partner" };
    const body = await partnerDashboard(ports, ask.read, wanted, (tx, scope) =>
      dashboardPartner(tx, scope, user, wanted),
    );
    return { body };
  }),

  route(contracts.listPartnerOrders, async (ask) => {
    const { user, query, params } = ask;
    await checkFilter(ask, query.client_id);
    await ask.read((tx, scope) => openPartnerFor(tx, scope, user, params.id));
    const span = spanOf(query, Date.now());
    const rows = orderRows({ ...query, span, partner_id: params.id, receiptKey: receiptKeyOf(ports.keyring) });
    return ask.list(rows, async (found) =>
      user.role === "partner" ? shownToPartner(found) : withFraud(ports.clickhouse, shownOrders(found)),
    );
  }),

  route(contracts.listPartnerPayments, async (ask) => {
    await checkFilter(ask, ask.query.client_id);
    await ask.read((tx, scope) => openPartnerFor(tx, scope, ask.user, ask.params.id));
    return ask.list(paymentRows(ask.params.id));
  }),
];
