// Made-up visitors of a shop: page views, carts and purchases, some through tracking links, and
// sometimes a bot. A seed makes a run repeatable.
import { type ClickIdKey, mint } from "../../domain/click-id.ts";

export interface Shop {
  readonly client_id: number;
  readonly currency: string;
  readonly link_ids: readonly number[];
  /** Whether visitors buy; otherwise they only look. */
  readonly isSelling: boolean;
}

const agents = [
  "Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) " +
    "Version/18.5 Mobile/15E148 Safari/604.1",
  "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) " +
    "Chrome/149.0.0.0 Mobile Safari/537.36",
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/149.0.0.0 Safari/537.36",
  "Mozilla/5.0 (Macintosh; Intel Mac OS X 15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.5 Safari/605.1.15",
  "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
];
/** The documentation networks of RFC 5737, whose addresses belong to no one. */
const networks = ["192.0.2", "198.51.100", "203.0.113"];
const products = ["lamp", "chair", "rug", "shelf", "mirror", "desk", "stool", "vase"];
const MINUTE_MS = 60_000;

/** Draws from `random`. The order of the draws determines the result of a seed. */
const openDraws = (random: () => number) => {
  const pick = <T>(from: readonly T[]): T => from[Math.floor(random() * from.length)]!;
  const below = (most: number): number => Math.floor(random() * most);
  return { pick, below, happens: (share: number): boolean => random() < share };
};
type Draws = ReturnType<typeof openDraws>;

const deviceOf = ({ pick, below, happens }: Draws) => ({
  ua: happens(0.02) ? agents[4]! : pick(agents.slice(0, 4)),
  ip: `${pick(networks)}.${1 + below(250)}`,
  did: `device-${below(5_000)}`,
});

const goodsOf = ({ pick, below }: Draws) => ({
  product_id: pick(products),
  price: (100 + below(200_000)) / 100,
  quantity: 1 + below(3),
});

/**
 * All events of one visit that ends at `now`, in the form of POST /ingest/batch and ordered by
 * time. `n` makes order ids unique.
 */
export const visit = (
  shop: Shop,
  run: string,
  n: number,
  now: number,
  random: () => number,
  key: ClickIdKey,
): readonly object[] => {
  const draws = openDraws(random);
  const { pick, below, happens } = draws;
  const device = deviceOf(draws);
  const { product_id, price, quantity } = goodsOf(draws);
  const clickedAt = now - Math.floor((2 + random() * 18) * MINUTE_MS);
  const bytes = Uint8Array.from({ length: 8 }, () => below(256));
  const svc_click_id =
    shop.link_ids.length > 0 && happens(0.6) ? mint(pick(shop.link_ids), clickedAt, bytes, key) : undefined;
  const url = `https://shop.example/${product_id}${happens(0.1) ? "?coupon=VERDE10" : ""}`;
  const at = (minutes: number) => Math.min(now, clickedAt + Math.floor(minutes * MINUTE_MS));
  const event = (t: string, ts: number, props: object) => ({
    t,
    ts,
    cid: shop.client_id,
    ...device,
    url,
    ...(svc_click_id && { svc_click_id }),
    props,
  });
  const { currency } = shop;
  const goods = { product_id, price, quantity, currency };
  const events: object[] = svc_click_id ? [event("click", clickedAt, {})] : [];
  events.push(event("page_view", at(0.1), { url }), event("view_product", at(0.5), goods));
  if (happens(0.5)) events.push(event("add_to_cart", at(1), goods));
  if (happens(0.3)) events.push(event("begin_checkout", at(1.5), { cart_value: price * quantity, currency }));
  if (shop.isSelling && happens(0.2)) {
    const coupon = happens(0.15) ? { coupon: "VERDE10" } : {};
    const order_id = `${run}-${n}`;
    const revenue = (price * quantity).toFixed(2);
    events.push(event("purchase", at(2), { order_id, revenue, currency, product_id, quantity, ...coupon }));
    if (happens(0.1)) events.push(event("refund", now, { order_id, reason: "item_returned" }));
  }
  return events;
};
