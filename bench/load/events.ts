// The test event of all benches: 17 fields, about 683 bytes of JSON. Bodies are built once, and
// each send only patches the serial number and the time.
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
 * A body that is sent many times: `renew` writes another serial into every event id and order id,
 * so that no two sends hold the same event, and moves each event's time so that its age before
 * `now` stays the same.
 */
export interface Body {
  readonly bytes: Buffer;
  readonly events: number;
  readonly renew: (serial: number, now: number) => void;
}
export const MANY_DEVICES = 20_000;
const DIGITS = 10;
const PLACE = "0".repeat(DIGITS);
/**
 * Ages of a hundred events when their body is sent: nine in ten are up to ten seconds old, and one
 * in ten waited on its device for up to ten minutes.
 */
const AGES_MS = Array.from({ length: 100 }, (_, n) => (n % 10 === 0 ? n * 6_000 : n * 100));

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
    ts: shape.now - AGES_MS[n % AGES_MS.length]!,
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

const placesOf = (bytes: Buffer, text: string, behind: number): readonly number[] => {
  const places: number[] = [];
  for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) places.push(at + behind);
  return places;
};

export const bodyOf = (shape: BodyShape): Body => {
  const random = randomFrom(shape.seed);
  const bytes = Buffer.from(
    JSON.stringify({ events: Array.from({ length: shape.events }, (_, n) => eventOf(shape, n, random)) }),
  );
  const serials = placesOf(bytes, `-${PLACE}-`, 1);
  const times = placesOf(bytes, '"ts":', '"ts":'.length);
  return {
    bytes,
    events: shape.events,
    renew: (serial, now) => {
      const digits = Buffer.from(String(serial).padStart(DIGITS, "0"));
      for (const place of serials) bytes.set(digits, place);
      const ages = AGES_MS.map((age) => Buffer.from(String(now - age)));
      for (const [n, place] of times.entries()) bytes.set(ages[n % ages.length]!, place);
    },
  };
};
