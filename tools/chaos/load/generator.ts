// Draws events from a seed: page views, sales with second copies and refunds, repeated ids, forged
// clicks and nonsense. Every amount of a tenant is a multiple of its own prime.
import { clickIdKey, mint } from "../../../domain/click-id.ts";

export interface Tenant {
  readonly id: number;
  readonly slug: string;
  /** Amounts of other tenants are no multiples of it, so money in the wrong account shows. */
  readonly prime: number;
  readonly links: readonly { readonly code: string; readonly linkId: number }[];
}
export interface SentEvent {
  readonly event_id: string;
  readonly t: string;
  readonly ts: number;
  readonly cid: number;
  readonly did: string;
  readonly url?: string;
  readonly svc_click_id?: string;
  readonly props: {
    readonly order_id?: string;
    readonly product_id?: string;
    readonly revenue?: string;
    readonly coupon?: string;
    readonly currency?: string;
    readonly [name: string]: unknown;
  };
}
/**
 * A sale as the sender knows it: the commission that it must earn once, however often it is sent.
 */
export interface Sale {
  readonly order: string;
  readonly tenant: Tenant;
  readonly cents: bigint;
  /** Percent of the commission; null if it depends on other sales (tiers). */
  readonly percent: bigint | null;
}
export interface Generator {
  /** The next events of one tenant, for one request. */
  readonly next: (tenant: Tenant, count: number) => readonly SentEvent[];
  /** Everything sent so far, by event id. */
  readonly sent: ReadonlyMap<string, SentEvent>;
  readonly sales: ReadonlyMap<string, Sale>;
  /** Orders for which a refund was sent. */
  readonly refunded: ReadonlySet<string>;
  /** While hot, most page views come from one device of one tenant. */
  readonly heat: (isHot: boolean) => void;
  /** Ids begin with `prefix` from now on. */
  readonly begin: (prefix: string) => void;
}

/**
 * Primes of the demo clients and the percentages of their contracts
 * (modules/running/installation/seed.ts), written here again so that they do not depend on the
 * pipeline.
 */
const primes: Readonly<Record<string, number>> = { "aurora-music": 101, "casa-verde": 103, "viento-travel": 107 };
const percentOfLink: Readonly<Record<string, bigint>> = {
  "aurora-radio": 10n,
  "aurora-vinyl": 8n,
  "aurora-campus": 0n,
};
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const SALES_REMEMBERED = 400;

export const tenantsOf = (demo: {
  readonly clients: readonly { readonly id: number; readonly slug: string }[];
  readonly links: readonly { readonly code: string; readonly link_id: number; readonly client_id: number }[];
}): readonly Tenant[] =>
  demo.clients.flatMap(({ id, slug }) => {
    const prime = primes[slug];
    const links = demo.links
      .filter(({ client_id: owner, code }) => owner === id && percentOfLink[code] !== undefined)
      .map(({ code, link_id: linkId }) => ({ code, linkId }));
    return prime === undefined ? [] : [{ id, slug, prime, links }];
  });

const decimal = (cents: bigint): string => `${cents / 100n}.${String(cents % 100n).padStart(2, "0")}`;

/** Draws events and remembers the outcome that each must have. */
class EventGenerator implements Generator {
  readonly sent = new Map<string, SentEvent>();
  readonly sales = new Map<string, Sale>();
  readonly refunded = new Set<string>();
  readonly #recent = new Map<number, { readonly sale: Sale; readonly event: SentEvent }[]>();
  readonly #random: () => number;
  readonly #now: () => number;
  readonly #key: ReturnType<typeof clickIdKey>;
  #prefix = "";
  #number = 0;
  #isHot = false;

  constructor(random: () => number, secret: string, now: () => number) {
    this.#random = random;
    this.#now = now;
    this.#key = clickIdKey(secret, 1);
  }

  readonly begin = (prefix: string): void => {
    this.#prefix = prefix;
  };
  readonly heat = (isHot: boolean): void => {
    this.#isHot = isHot;
  };
  readonly next = (tenant: Tenant, count: number): readonly SentEvent[] => {
    const batch: SentEvent[] = [];
    for (let n = 0; n < count; n += 1) batch.push(this.#one(tenant, batch));
    for (const event of batch) if (!this.sent.has(event.event_id)) this.sent.set(event.event_id, event);
    return batch;
  };

  #pick<T>(from: readonly T[]): T | undefined {
    return from[Math.floor(this.#random() * from.length)];
  }

  #one(tenant: Tenant, batch: readonly SentEvent[]): SentEvent {
    const prefix = this.#prefix;
    const kind = this.#random();
    const earlier = this.#pick(this.#recent.get(tenant.id) ?? []);
    // The same event again, as from a sender that missed the answer: within one request, or from an
    // earlier one.
    if (kind < 0.03 && batch.length > 0) return this.#pick(batch)!;
    if (kind < 0.07 && earlier !== undefined) return earlier.event;
    const base = this.#base(tenant);
    if (kind < 0.1) return { ...base, ts: 1, t: "page_view", props: { url: "https://shop.example/before-all-time" } };
    if (kind < 0.16 && earlier !== undefined)
      return { ...earlier.event, event_id: base.event_id, did: `${prefix}-server` };
    if (kind < 0.2 && earlier !== undefined) {
      this.refunded.add(earlier.sale.order);
      return { ...base, t: "refund", props: { order_id: earlier.sale.order, reason: "item_returned" } };
    }
    if (kind < 0.5) return this.#saleOf(tenant, base, kind < 0.22);
    const did = this.#isHot && this.#random() < 0.9 ? `${prefix}-hot` : base.did;
    return { ...base, did, t: "page_view", props: { url: `https://shop.example/${tenant.slug}/${this.#number}` } };
  }

  #base(tenant: Tenant): Omit<SentEvent, "t" | "props"> {
    const random = this.#random;
    this.#number += 1;
    // Some events are up to three weeks late, some have a clock up to 23 h fast. Few hours are
    // touched, because each touched hour is computed again.
    const skew = random();
    const aside =
      skew < 0.03
        ? -7 * DAY_MS * (1 + Math.floor(random() * 3))
        : skew < 0.05
          ? 11 * 60 * MINUTE_MS * (1 + Math.floor(random() * 2))
          : 0;
    const ts = this.#now() - MINUTE_MS + aside;
    return {
      event_id: `${this.#prefix}-${this.#number}`,
      ts,
      cid: tenant.id,
      did: `${this.#prefix}-d${Math.floor(random() * 150)}`,
    };
  }

  #saleOf(tenant: Tenant, base: Omit<SentEvent, "t" | "props">, forged: boolean): SentEvent {
    const random = this.#random;
    const order = `${base.event_id}-order`;
    const cents = BigInt(tenant.prime) * BigInt(1 + Math.floor(random() * 200));
    const common = { order_id: order, quantity: 1, revenue: decimal(cents) };
    const noted = (percent: bigint | null, event: SentEvent): SentEvent =>
      this.#note({ order, tenant, cents, percent }, event);
    if (tenant.slug === "casa-verde") {
      const hasCoupon = random() < 0.8;
      const coupon = hasCoupon ? { coupon: "VERDE10" } : {};
      const props = { ...common, product_id: "lamp", currency: "MXN", ...coupon };
      return noted(hasCoupon ? 4n : 0n, { ...base, t: "purchase", props });
    }
    if (tenant.slug === "viento-travel") {
      const url = "https://www.viento-travel.example/?utm_source=guia-mochilera";
      return noted(null, { ...base, t: "purchase", url, props: { ...common, product_id: "flight", currency: "MXN" } });
    }
    const link = this.#pick(tenant.links);
    if ((random() < 0.15 || forged) && link !== undefined) {
      const svc_click_id = this.#clickId(link.linkId, base.ts, forged);
      const props = { ...common, product_id: "vinyl", currency: "USD" };
      return noted(forged ? 0n : percentOfLink[link.code]!, { ...base, t: "purchase", svc_click_id, props });
    }
    return noted(10n, { ...base, t: "purchase", props: { ...common, product_id: "cd", currency: "USD" } });
  }

  #clickId(linkId: number, ts: number, forged: boolean): string {
    const bytes = Uint8Array.from({ length: 8 }, () => Math.floor(this.#random() * 256));
    // A click from the future is never accepted, however fast the sender's clock is.
    const good = mint(linkId, Math.min(ts, this.#now()) - 10 * MINUTE_MS, bytes, this.#key);
    // The last characters belong to the MAC, so no partner may be credited for this click.
    return forged ? `${good.slice(0, -4)}${good.endsWith("AAAA") ? "BBBB" : "AAAA"}` : good;
  }

  #note(sale: Sale, event: SentEvent): SentEvent {
    this.sales.set(sale.order, sale);
    const kept = this.#recent.get(sale.tenant.id) ?? [];
    this.#recent.set(sale.tenant.id, [...kept.slice(-SALES_REMEMBERED), { sale, event }]);
    return event;
  }
}

export const openGenerator = (random: () => number, secret: string, now: () => number = Date.now): Generator =>
  new EventGenerator(random, secret, now);
