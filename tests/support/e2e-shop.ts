// A client of the demonstration on a running product. Its sender sends sales, some of them with a
// coupon.
import { expect } from "vitest";
import type { Product } from "./e2e-product.ts";

export const shopOf = (product: Product, slug: string) => {
  const client = product.client(slug);
  const { links } = product.stack.run.demo as {
    links: readonly { readonly client_id: number; readonly partner_id: number }[];
  };
  const own = links.filter(({ client_id }) => client_id === client.id).map(({ partner_id }) => partner_id);
  return {
    ...client,
    /** Each partner once, in the order of the links. */
    partners: [...new Set(own)],
    /** Resolves when the edge has accepted all of them. */
    send: async (events: readonly object[]): Promise<void> => {
      const answer = await fetch(`${product.ingestUrl}/ingest/batch`, {
        method: "POST",
        headers: { authorization: `Bearer ${client.token}`, "content-type": "application/json" },
        body: JSON.stringify({ events }),
      });
      expect([answer.status, await answer.json()]).toMatchObject([200, { accepted: events.length }]);
    },
    purchase: (order: string, coupon?: string) => ({
      ...{ event_id: `purchase-${order}`, t: "purchase", ts: Date.now(), cid: client.id, did: `device-${order}` },
      props: {
        order_id: order,
        product_id: "maceta",
        quantity: 1,
        revenue: "1000.00",
        currency: "MXN",
        ...(coupon && { coupon }),
      },
    }),
  };
};
export type Shop = ReturnType<typeof shopOf>;
