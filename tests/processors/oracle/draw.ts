// Draws small histories at random from a seed, around a month border and the 48 hours of a merge.
import { contractsOf } from "./draw-contracts.ts";
import type { Backfilled, ClientSaved, Closed, Decided, Happening, History, PatternSaved, Sent } from "./history.ts";
import { border, DAY, HOUR, type Random, randomOf } from "./random.ts";
import { partners } from "./real.ts";

/**
 * The text that a sender writes for an amount of this currency. Without a named currency it is read
 * in cents.
 */
const amountOf = ({ below, pick }: Random, currency: string | undefined, isNamed = true, smallest = ""): string => {
  if (currency === "JPY") {
    const whole = `${1 + below(300)}`;
    return isNamed
      ? pick("100", "33", whole, smallest || "1")
      : pick("100.00", "33.33", "12.50", `${whole}.${10 + below(90)}`, smallest || "1.00");
  }
  if (currency === "KWD" && isNamed)
    return pick(
      "100.000",
      "33.333",
      "0.005",
      smallest || "0.001",
      `${1 + below(300)}.${`${below(1000)}`.padStart(3, "0")}`,
    );
  return pick("100.00", "33.33", "0.05", smallest || "0.01", `${1 + below(300)}.${`${below(100)}`.padStart(2, "0")}`);
};
/** The constant parts of a history. */
interface Scene {
  readonly clients: readonly ClientSaved[];
  readonly orders: readonly string[];
  readonly products: readonly string[];
  readonly claimants: readonly number[];
  /** By order and product. */
  readonly currencies: ReadonlyMap<string, string | undefined>;
  readonly hasWorthless: boolean;
  readonly hasTotals: boolean;
  /**
   * The kind of happenings that is drawn most often, so that rare ones meet each other; null for a
   * mixture.
   */
  readonly focus: "refunds" | "caps" | "room" | "totals" | "order" | null;
  /** Nearly all happenings are leads. */
  readonly ofLeads: boolean;
  /**
   * The event types that contracts pay for beside purchases; a custom name earns only under a
   * contract for it.
   */
  readonly types: readonly string[];
  readonly soFar: readonly Happening[];
}
type Place = { readonly id: string; readonly client: number; readonly receivedAt: number };

const clickIn = (random: Random, scene: Scene, ts: number, receivedAt: number): Pick<Sent, "click"> => {
  const { chance, pick } = random;
  if (!chance(0.7)) return {};
  const before = Math.min(ts, receivedAt) - pick(1, HOUR, 7 * DAY + 1, 30 * DAY, 30 * DAY + 1);
  const at = chance(0.1) ? pick(ts + 1, receivedAt, receivedAt + 1) : before;
  return { click: { partner: pick(...scene.claimants), at, ...(chance(0.05) && { isForged: true }) } };
};
const spelt = ({ chance, pick }: Random, order: string): string =>
  chance(0.1)
    ? pick(` ${order}`, `${order}\t`, order.normalize("NFD"))
    : chance(0.02)
      ? pick("null", "N/A", " test")
      : order;

const happensTo = (random: Random, scene: Scene, place: Place): Sent => {
  const { chance, pick } = random;
  const ts = place.receivedAt - pick(0, 0, 1, HOUR, 2 * DAY, -HOUR);
  return {
    ...{ is: "event", ...place, t: "purchase", ts, isPixel: chance(0.4) },
    did: pick("d1", "d2", "guest"),
    ...(chance(0.3) && { person: pick("p1", "p2") }),
    ...(scene.focus === null
      ? { verdict: pick("ok", "ok", "ok", "review", "reject"), ...clickIn(random, scene, ts, place.receivedAt) }
      : {
          verdict: chance(0.15) ? "review" : "ok",
          ...(chance(0.9) && {
            click: { partner: pick(...scene.claimants), at: Math.min(ts, place.receivedAt) - HOUR },
          }),
        }),
    ...(chance(0.2) && { coupon: pick("SAVE", "OTHER") }),
    ...(chance(0.2) && {
      url: `https://shop.example/${pick("a", "b")}?utm_source=mail&utm_campaign=${pick("june", "july")}&`,
    }),
  };
};

/**
 * An order with one of its products. With the focus on room, mostly a line that was sold, or one
 * that was not; an unsold line is often one that a decision waits for.
 */
const lineIn = (random: Random, { focus, soFar, orders, products }: Scene, isSold: boolean) => {
  const { chance, pick } = random;
  const lines = orders.flatMap((order) => products.map((product) => ({ order, product })));
  const names = (one: Happening, { order, product }: (typeof lines)[number]): boolean =>
    one.is !== "look-up" &&
    one.is !== "backfill" &&
    one.product === product &&
    one.order?.normalize("NFC").trim() === order;
  const sold = lines.filter((line) => soFar.some((one) => one.is === "event" && names(one, line)));
  const decided = lines.filter((line) => soFar.some((one) => one.is === "decision" && names(one, line)));
  const fresh = lines.filter((line) => !sold.includes(line));
  const awaited = fresh.filter((line) => decided.includes(line));
  if (focus !== "room" || chance(0.15)) return { order: pick(...orders), product: pick(...products) };
  if (isSold) return pick(...(sold.length > 0 ? sold : lines));
  if (awaited.length > 0 && chance(0.5)) return pick(...awaited);
  return pick(...(fresh.length > 0 ? fresh : lines));
};

const purchaseIn = (random: Random, scene: Scene, place: Place): Sent => {
  const { chance, pick } = random;
  const { order, product } = lineIn(random, scene, false);
  const isTotal = scene.hasTotals && chance(0.4);
  const named = scene.currencies.get(`${order} ${product}`);
  const currency = chance(0.3) ? undefined : named;
  const smallest = scene.hasWorthless ? "0" : "";
  const amount = (): string => amountOf(random, named, currency !== undefined, smallest);
  const total = named === "JPY" && currency !== undefined ? pick("100", "33") : pick("100.00", "33.33");
  const isCalledCustom = chance(0.1);
  const t = isTotal ? "ext_purchase" : isCalledCustom ? "custom" : pick("purchase", "ext_purchase");
  const sent = happensTo(random, scene, place);
  return {
    ...{ ...sent, t, ...(t === "custom" && { name: "purchase" }) },
    // Pages do not send this type.
    isPixel: sent.isPixel && t !== "ext_purchase",
    order: spelt(random, order),
    ...(!isTotal && { product }),
    segment: scene.hasTotals || product === "s1" ? "MX" : "VD",
    amount: scene.hasTotals || scene.focus === "room" ? total : amount(),
    ...(currency !== undefined && { currency }),
  };
};

/**
 * An event of another type. A custom event gets an order of its own, because the rules leave open
 * whether it would be a copy of a purchase.
 */
const othersIn = (random: Random, scene: Scene, place: Place): Sent => {
  const { chance, pick } = random;
  const currency = scene.clients.find(({ id }) => id === place.client)!.currency;
  const sent = { ...happensTo(random, scene, place), amount: amountOf(random, currency), currency };
  const t = scene.ofLeads ? "lead_submit" : pick(...scene.types.slice(1), "signup", "page_view");
  if (t === "install") return { ...happensTo(random, scene, place), t, currency };
  if (t === "page_view") return { ...sent, t: "custom", name: "looked" };
  const order = t === "signup" && chance(0.5) ? { order: "K", product: pick(...scene.products) } : {};
  if (t === "signup") return { ...sent, ...(chance(0.5) ? { t } : { t: "custom", name: t }), ...order };
  const email = chance(0.6) ? { email: pick("ana@x.example", "leo@x.example") } : {};
  return { ...sent, t, ...email, ...((email.email === undefined || chance(0.4)) && { leadId: pick("l1", "l2") }) };
};

/** The event that a refund names: it was sent before, is sent later, or never. */
const namedIn = (random: Random, scene: Scene, place: Place): Pick<Sent, "about" | "order" | "currency"> => {
  const { chance, pick, below } = random;
  const earlier = scene.soFar.filter(
    (one): one is Sent => one.is === "event" && one.client === place.client && one.t !== "refund",
  );
  const inSome = chance(0.4) ? { order: pick(...scene.orders) } : {};
  if (earlier.length === 0 || chance(0.15)) return { about: `e${below(11)}`, ...inSome };
  const of = pick(...earlier);
  const order = of.order === undefined || chance(0.3) ? {} : { order: of.order };
  const currency = of.currency === undefined || chance(0.5) ? {} : { currency: of.currency };
  return { about: of.id, ...(chance(0.1) ? inSome : order), ...currency };
};

const refundIn = (random: Random, scene: Scene, place: Place): Sent => {
  const { chance, pick } = random;
  const { order, product: line } = lineIn(random, scene, true);
  const about = chance(scene.focus === null ? 0.4 : 0.25) ? namedIn(random, scene, place) : undefined;
  const isOfLine = about === undefined && !scene.hasTotals && chance(scene.focus === "room" ? 0.9 : 0.4);
  const product = isOfLine ? line : undefined;
  const own = scene.currencies.get(`${order} ${product ?? pick(...scene.products)}`);
  const named = about === undefined && own !== undefined && chance(0.7) ? (chance(0.95) ? own : "EUR") : undefined;
  const currency = about?.currency ?? named;
  const hasAmount = chance(scene.focus === "room" ? 0.3 : 0.7);
  return {
    ...{ is: "event", ...place, t: "refund", ts: place.receivedAt, isPixel: false, did: "shop", verdict: "ok" },
    ...(about ?? { order: spelt(random, order) }),
    ...(product !== undefined && { product }),
    ...(hasAmount && { amount: amountOf(random, currency ?? own, currency !== undefined) }),
    ...(currency !== undefined && { currency }),
    ...(chance(scene.focus === "refunds" ? 0.6 : 0.2) && { refundId: chance(0.8) ? "r" : "s" }),
  };
};

const decisionIn = (random: Random, scene: Scene, place: Place): Decided => {
  const { chance, pick } = random;
  const isOfRoom = scene.focus === "room";
  // Half of the decisions wait for their line, and then keep it from its partner.
  const { order, product: line } = lineIn(random, scene, chance(0.5));
  const product = chance(isOfRoom ? 0.9 : 0.4) && !scene.hasTotals ? { product: line } : {};
  const earlier = scene.soFar.filter(
    (one): one is Sent => one.is === "event" && one.t !== "refund" && one.client === place.client,
  );
  const claims = earlier.filter(({ t, name }) => t !== "custom" || name !== "looked");
  const about = claims.length > 0 && chance(0.5) ? pick(...claims) : undefined;
  // The rules leave open what a release before its sale means, so none is drawn.
  const isKnown =
    about !== undefined ||
    earlier.some((one) => one.order === order && (product.product ?? one.product) === one.product);
  const kind =
    about !== undefined && chance(0.2)
      ? "flag"
      : pick("assign", "reattribute", "take_back", isKnown ? "release" : "assign", "reject");
  return {
    ...{ is: "decision", ...place, kind },
    ...(about === undefined ? { order, ...product } : { about: about.id }),
    ...(kind === "flag" && { band: pick("ok", "review", "reject") }),
    ...((kind === "assign" || kind === "reattribute") && { partner: pick(...partners) }),
  };
};

/** A job about the line of an earlier event. */
const backfillIn = ({ chance, pick }: Random, scene: Scene, receivedAt: number): Backfilled | undefined => {
  const sold = scene.soFar.filter((one): one is Sent => one.is === "event" && one.t !== "refund");
  if (sold.length === 0) return undefined;
  const { id: about, client } = pick(...sold);
  return {
    ...{ is: "backfill", id: `e${100 + scene.soFar.length}`, client, about, receivedAt },
    ...(chance(0.8) && { partner: pick(...partners) }),
    ...{ isDisputed: chance(0.2), recalculates: chance(0.4) },
  };
};

/** The same event again, or another event with its id. */
const againIn = (random: Random, scene: Scene, place: Place): Sent | undefined => {
  const { chance, pick } = random;
  const earlier = scene.soFar.filter((one): one is Sent => one.is === "event");
  if (earlier.length === 0) return undefined;
  const again = { ...pick(...earlier), receivedAt: place.receivedAt };
  if (chance(0.5)) return again;
  return again.amount === undefined ? { ...again, order: "Z" } : { ...again, amount: `4${again.amount}` };
};

/**
 * Shares of twenty happenings: purchases, then others, then refunds up to these numbers; the rest
 * are decisions.
 */
const sharesOf = ({ focus, ofLeads, types }: Scene): readonly [number, number, number] => {
  if (focus === "refunds") return [8, 8, 19];
  if (focus === "caps") return [15, 15, 18];
  if (focus === "room") return [11, 11, 15];
  if (focus === "totals") return [11, 11, 15];
  if (focus === "order") return [12, 12, 15];
  return [ofLeads ? 2 : 10, types.length > 1 ? (ofLeads ? 11 : 13) : 11, 16];
};

const sceneOf = (random: Random, soFar: readonly Happening[]): Scene => {
  const { below, chance, pick } = random;
  const clients = (chance(0.1) ? [1, 2] : [1]).map((id) => ({
    ...{ id, currency: chance(0.7) ? "MXN" : pick("USD", "JPY", "KWD") },
    holdDays: { purchase: pick(0, 30), lead_submit: 7 },
  }));
  const focus = pick(null, null, null, null, "refunds", "caps", "room", "totals", "order");
  const hasTotals = focus === null ? chance(0.1) : focus === "totals";
  const ofLeads = focus === null && chance(0.15);
  const orders = ["A\u00e1", "B", "C"].slice(
    0,
    focus === null ? 1 + below(3) : focus === "caps" || focus === "room" ? 3 : 1,
  );
  const most = focus === "totals" ? 2 : focus === "room" || focus === "order" ? 3 : 1 + below(hasTotals ? 2 : 3);
  const products = ["s1", "s2", "s3"].slice(0, most);
  return {
    ...{ clients, orders, products, hasTotals, ofLeads, soFar, focus, hasWorthless: chance(0.2) },
    types: ofLeads
      ? ["purchase", "lead_submit"]
      : ["purchase", ...pick([], [], ["lead_submit", "install"], ["install", "signup"], ["signup"])],
    claimants: focus === null ? partners : focus === "totals" ? [21, 22] : [21],
    currencies: new Map(
      orders.flatMap((order) => {
        // Tiers and caps have only one currency.
        const most = focus === "room" ? undefined : pick(undefined, "MXN", "USD");
        return products.map((product) => [`${order} ${product}`, chance(0.1) ? pick("MXN", "USD") : most] as const);
      }),
    ),
  };
};

const patternsOf = ({ chance, pick }: Random, { clients }: Scene): readonly PatternSaved[] => {
  const texts = [
    ...(["SAVE", "OTHER"] as const).map((value) => ({ kind: "coupon", value }) as const),
    ...(["june", "july"] as const).map((value) => ({ kind: "utm_campaign", value }) as const),
    { kind: "utm_source", value: "mail" } as const,
    ...["https://shop.example/", "https://shop.example/b"].map((value) => ({ kind: "url_prefix", value }) as const),
  ];
  return clients.flatMap(({ id: client }) =>
    texts
      .filter(() => chance(0.15))
      .map((text) => ({
        ...{ client, ...text, campaign: pick("all", "one") },
        ...(chance(0.5) && { partner: pick(...partners) }),
      })),
  );
};
/** June, and sometimes July, of a partner is closed during the history. */
const closedIn = ({ chance, pick }: Random, { clients }: Scene): readonly Closed[] =>
  clients.flatMap(({ id: client }) =>
    partners.flatMap((partner) =>
      [6, 7]
        .filter((month) => chance(month === 6 ? 0.2 : 0.05))
        .map((month) => ({ client, partner, year: 2026, month, recordedAt: border + pick(HOUR, 3 * DAY, 9 * DAY) })),
    ),
  );

export const historyOf = (seed: number): History => {
  const random = randomOf(seed);
  const { below, chance, pick } = random;
  const happenings: Happening[] = [];
  const scene = sceneOf(random, happenings);
  const [purchases, others, refunds] = sharesOf(scene);
  const contracts = scene.clients.flatMap(({ id }) => contractsOf(random, id, scene));
  const longest = chance(0.2) ? 25 * DAY : 3 * DAY;
  let receivedAt = border - pick(2 * HOUR, DAY, 3 * DAY);
  const isOfRoom = scene.focus === "room";
  const hasJobs = chance(0.4);
  for (let n = 0, many = 3 + below(8) + (isOfRoom ? 2 : 0); n < many; n++) {
    receivedAt += pick(1_000, HOUR, 20 * HOUR, 48 * HOUR, 48 * HOUR + 1, longest);
    if (chance(0.1)) receivedAt = Math.max(receivedAt, border - pick(0, 1));
    const place = { id: `e${n}`, client: pick(...scene.clients).id, receivedAt };
    const kind = isOfRoom && n < 2 ? 1 : below(20);
    const again = kind === 0 ? againIn(random, scene, place) : undefined;
    if (again !== undefined) happenings.push(again);
    else if (kind < purchases) happenings.push(purchaseIn(random, scene, place));
    else if (kind < others) happenings.push(othersIn(random, scene, place));
    else if (kind < refunds) happenings.push(refundIn(random, scene, place));
    else happenings.push(decisionIn(random, scene, place));
    const job = chance(hasJobs ? 0.25 : 0) ? backfillIn(random, scene, receivedAt + 60_000) : undefined;
    if (job !== undefined) happenings.push(job);
    if (n !== 5 || chance(0.5)) continue;
    receivedAt += HOUR;
    happenings.push({ is: "look-up", id: "looked", receivedAt });
  }
  happenings.push({ is: "look-up", id: "looked at last", receivedAt: receivedAt + HOUR });
  return {
    clients: scene.clients,
    contracts,
    patterns: patternsOf(random, scene),
    closed: closedIn(random, scene),
    happenings,
  };
};
