// A fixed story of one shop: ten events, the result that each must have, and the ledger at the end.
// `npm start -- --once` shows it.
import { type ClickIdKey, mint } from "../../domain/click-id.ts";

export interface StoryLinks {
  /** Link ids by code. */
  readonly [code: string]: number;
}
interface Chapter {
  readonly says: string;
  readonly event: Readonly<Record<string, unknown>> & { readonly event_id: string };
  /**
   * The answer of the edge, and the credit of the event; `merged` is a second copy, which counts
   * nowhere.
   */
  readonly expect: "refused" | "merged" | "refund" | `attributed ${string}` | `unattributed ${string}`;
}
export interface Story {
  readonly prefix: string;
  readonly chapters: readonly Chapter[];
  /** The sum of the ledger entries of each order, in minor units. */
  readonly commissions: ReadonlyMap<string, bigint>;
}
const MINUTE_MS = 60_000;
const PAGE = "https://www.casa-verde.example/jardin";
const phone =
  "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
  "Version/18.5 Mobile/15E148 Safari/604.1";

/** Changes the last character of a click id: the form is right, the proof is wrong. */
const forged = (clickId: string): string => `${clickId.slice(0, -1)}${clickId.endsWith("A") ? "B" : "A"}`;

/**
 * Ids of a run, and makers of its events, which are numbered in the order in which they are made.
 */
const castOf = (run: string, clientId: number, links: StoryLinks, key: ClickIdKey, now: number) => {
  const prefix = `story-${run}`;
  const clickedAt = now - 20 * MINUTE_MS;
  const click = (code: string, n: number) =>
    mint(links[code]!, clickedAt, Uint8Array.from([n, 1, 2, 3, 4, 5, 6, 7]), key);
  const order = (n: number) => `${prefix}-order-${n}`;
  let number = 0;
  const event = (t: string, did: string, minutesAgo: number, props: object, more: object = {}) => {
    number += 1;
    return {
      t,
      ts: now - minutesAgo * MINUTE_MS,
      cid: clientId,
      did: `${prefix}-${did}`,
      event_id: `${prefix}-${number}`,
      ip: "192.0.2.44",
      ua: phone,
      props,
      ...more,
    };
  };
  const sale = (n: number, revenue: string, more: object = {}) => ({
    order_id: order(n),
    revenue,
    currency: "MXN",
    product_id: "lamp",
    quantity: 1,
    ...more,
  });
  return { prefix, click, jardin: click("verde-jardin", 1), order, event, sale };
};
type Cast = ReturnType<typeof castOf>;

const firstPurchase = ({ event, sale, jardin }: Cast): readonly Chapter[] => [
  {
    says: "a visitor follows the link verde-jardin",
    event: event("click", "phone-1", 20, {}, { svc_click_id: jardin }),
    expect: "attributed click",
  },
  {
    says: "looks at a page",
    event: event("page_view", "phone-1", 18, { url: PAGE }, { svc_click_id: jardin }),
    expect: "attributed click",
  },
  {
    says: "buys for 1,000.00: 12 % for the partner",
    event: event("purchase", "phone-1", 15, sale(1, "1000.00"), { svc_click_id: jardin }),
    expect: "attributed click",
  },
];

/** Orders without a click, with a forged one, with a coupon, and through a paused campaign. */
const otherPurchases = ({ event, sale, jardin, click }: Cast): readonly Chapter[] => [
  {
    says: "a purchase without any click",
    event: event("purchase", "phone-2", 14, sale(2, "499.00")),
    expect: "unattributed no_click",
  },
  {
    says: "a purchase with a forged click id",
    event: event("purchase", "phone-3", 13, sale(3, "850.00"), { svc_click_id: forged(jardin) }),
    expect: "unattributed bad_click_id",
  },
  {
    says: "a purchase with a partner's coupon: 4 %",
    event: event("purchase", "phone-4", 12, sale(4, "250.00", { coupon: "VERDE10" })),
    expect: "attributed rule",
  },
  {
    says: "a purchase through a paused campaign",
    event: event("purchase", "phone-5", 11, sale(5, "300.00"), { svc_click_id: click("verde-invierno", 2) }),
    expect: "unattributed campaign_inactive",
  },
];

/** A second copy and a refund of the first order, and an event that is refused. */
const aftermath = ({ event, sale, order }: Cast): readonly Chapter[] => [
  {
    says: "the shop's server sends the first purchase too",
    event: event("purchase", "phone-1", 15, sale(1, "1000.00")),
    expect: "merged",
  },
  {
    says: "a quarter of the first purchase is refunded",
    event: event("refund", "phone-1", 2, {
      order_id: order(1),
      amount: "250.00",
      currency: "MXN",
      reason: "item_returned",
    }),
    expect: "refund",
  },
  {
    says: "a purchase without an order id",
    event: event("purchase", "phone-6", 1, { revenue: "10.00", product_id: "lamp", quantity: 1 }),
    expect: "refused",
  },
];

/**
 * The story happens at `now`; `run` keeps the ids of two runs apart. The seeded shop casa-verde
 * pays 12 % through verde-jardin and 4 % for coupons VERDE...
 */
export const storyOf = (run: string, clientId: number, links: StoryLinks, key: ClickIdKey, now: number): Story => {
  const cast = castOf(run, clientId, links, key, now);
  const { prefix, order } = cast;
  return {
    prefix,
    chapters: [...firstPurchase(cast), ...otherPurchases(cast), ...aftermath(cast)],
    commissions: new Map([
      [order(1), 120_00n - 30_00n],
      [order(4), 10_00n],
    ]),
  };
};
