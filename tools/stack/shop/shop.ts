// The demo shop of `npm start`: pages with the pixel's snippet, on this machine only. The links of
// its client lead here while it is open.
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { openClickhouse } from "../../../infra/clickhouse/client.ts";
import { openPool, transaction } from "../../../infra/postgres/sql.ts";
import { activeCampaigns } from "../../../modules/catalog/clients/client-reads.ts";
import { snippetOf } from "../../../modules/catalog/pixel/snippet.ts";
import { writeReference } from "../../../modules/catalog/reference/writer.ts";
import { pageOf } from "./pages.ts";
import { happened } from "./shop-result.ts";

export interface ShopOptions {
  readonly clientId: number;
  /** The address of the pixel host. */
  readonly pixelUrl: string;
  readonly clickhouseUrl: string;
  readonly postgresUrl: string;
}
export interface DemoShop {
  readonly url: string;
  readonly close: () => Promise<void>;
}

/** Points the client's active campaigns to the shop, which has another port at each start. */
const leadLinksTo = async (pool: ReturnType<typeof openPool>, clientId: number, url: string): Promise<void> => {
  const campaigns = await transaction(pool, [clientId], (tx) => activeCampaigns(tx, clientId), { isReadOnly: true });
  if (campaigns.length > 0)
    await writeReference(pool, "demo shop", {
      campaigns: campaigns.map((campaign_id) => ({ campaign_id, destination_url: url })),
    });
};

export const openShop = async ({ clientId, pixelUrl, clickhouseUrl, postgresUrl }: ShopOptions): Promise<DemoShop> => {
  const clickhouse = openClickhouse(clickhouseUrl);
  const pool = openPool(postgresUrl, { name: "tributary-shop", max: 2 });
  const snippet = snippetOf(clientId, pixelUrl);
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://shop");
    const answer = (status: number, type: string, body: string) =>
      response.writeHead(status, { "Content-Type": type, "Cache-Control": "no-store" }).end(body);
    if (pathname === "/happened")
      happened(clickhouse, pool, clientId).then(
        (found) => answer(200, "application/json", JSON.stringify(found)),
        (error: Error) => answer(503, "text/plain", error.message),
      );
    else {
      const page = pageOf(pathname, snippet);
      if (page === undefined) answer(404, "text/plain", "no such page");
      else answer(200, "text/html; charset=utf-8", page);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const close = async (): Promise<void> => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await Promise.all([clickhouse.close(), pool.end()]);
  };
  try {
    await leadLinksTo(pool, clientId, url);
  } catch (error) {
    await close();
    throw error;
  }
  return { url, close };
};
