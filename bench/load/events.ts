// The test event of all benches: 17 fields, about 683 bytes of JSON, in bodies that are built once
// and made new by patching a serial number.
import { randomFrom } from "../../infra/runtime/random.ts";

export interface BodyShape {
  readonly clientId: number;
  readonly events: number;
  /** Share of purchases among page views and carts, 0 to 1. */
  readonly purchases: number;
  /** Distinct devices; 1 puts every event on one partition. */
  readonly devices: number;
  readonly seed: number;
  readonly now: number;
}
/**
 * A body to send again and again: `renew` writes another serial into every event id and order id,
 * so that no two sends hold the same event.
 */
export interface Body {
  readonly bytes: Buffer;
  readonly events: number;
  readonly renew: (serial: number) => void;
}
export const MANY_DEVICES = 20_000;
const DIGITS = 10;
const PLACE = "0".repeat(DIGITS);
const ua = (n: number) =>
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) " +
  `Chrome/${100 + n}.0.${n * 37}.0 Safari/537.36`;

const eventOf = (shape: BodyShape, n: number, random: () => number): object => {
  const device = Math.floor(random() * shape.devices);
  const product = Math.floor(random() * 500);
  const isPurchase = random() < shape.purchases;
  const price = (100 + Math.floor(random() * 100_000)) / 100;
  return {
    t: isPurchase ? "purchase" : "view_product",
    ts: shape.now - Math.floor(random() * 600_000),
    cid: shape.clientId,
    did: `3f8a1c5e-77b2-4c1d-9d57-${String(device).padStart(12, "0")}`,
    event_id: `bench-${PLACE}-${n}`,
    url: `https://shop.example/catalogue/spring/product-${product}?utm_source=newsletter&utm_campaign=spring-2026`,
    ref: "https://www.search.example/results?q=floor+lamp+with+shelf",
    ip: `203.0.113.${1 + (device % 250)}`,
    ua: ua(device % 40),
    consent: 255,
    props: {
      product_id: `sku-${product}`,
      product_name: "Floor lamp with shelf, oak",
      product_line: "MX",
      price,
      quantity: 1 + (n % 3),
      currency: "MXN",
      category: "living room / lighting",
      ...(isPurchase && { order_id: `order-${PLACE}-${n}`, revenue: price }),
    },
  };
};

export const bodyOf = (shape: BodyShape): Body => {
  const random = randomFrom(shape.seed);
  const bytes = Buffer.from(
    JSON.stringify({ events: Array.from({ length: shape.events }, (_, n) => eventOf(shape, n, random)) }),
  );
  const places: number[] = [];
  for (let at = bytes.indexOf(`-${PLACE}-`); at >= 0; at = bytes.indexOf(`-${PLACE}-`, at + 1)) places.push(at + 1);
  return {
    bytes,
    events: shape.events,
    renew: (serial) => {
      const digits = Buffer.from(String(serial).padStart(DIGITS, "0"));
      for (const place of places) bytes.set(digits, place);
    },
  };
};
