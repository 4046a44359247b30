// The routes of the figures of a campaign.
import { spanOf } from "../../../../modules/base/days.ts";
import { campaignOf } from "../../../../modules/catalog/campaigns/campaign-reads.ts";
import { campaignDays, campaignStats } from "../../../../modules/figures/dashboards/campaign.ts";
import { orderRows, receiptKeyOf, shownOrders, withFraud } from "../../../../modules/figures/reads/order-rows.ts";
import * as contracts from "../../contract/figures/campaign-figures.ts";
import { type ApiPorts, type Ask, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "clickhouse" | "positions" | "keyring">;

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.readStats, async (ask) => ({ body: await campaignStats(ports, ask.read, await queryOf(ask)) })),

  route(contracts.readDaily, async (ask) => ({ body: await campaignDays(ports, ask.read, await queryOf(ask)) })),

  route(contracts.listCampaignOrders, async ({ read, list, params, query }) => {
    await read((tx, { clients }) => campaignOf(tx, params.id, clients));
    const { partner_id, status, segment } = query;
    const filter = { campaign_id: params.id, partner_id, status, segment, span: spanOf(query, Date.now()) };
    const rows = orderRows({ ...filter, receiptKey: receiptKeyOf(ports.keyring) });
    return list(rows, (found) => withFraud(ports.clickhouse, shownOrders(found)));
  }),
];

const queryOf = async ({ read, params, query }: Pick<Ask<typeof contracts.readStats>, "read" | "params" | "query">) => {
  const { client_id } = await read((tx, { clients }) => campaignOf(tx, params.id, clients));
  return { ...query, client_id, campaign_id: params.id };
};
