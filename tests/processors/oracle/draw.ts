// Draws small histories at random from a seed, around a month border and the 48 hours of a merge.
import { isPlaceholder, spelt as spelling } from "./accounts.ts";
import { contractsOf } from "./draw-contracts.ts";
import type {
  Backfilled,
  ClientSaved,
  Closed,
  Decided,
  Happening,
  History,
  PatternSaved,
  Reprocessed,
  Sent,
  Undone,
} from "./history.ts";
import { border, DAY, HOUR, type Random, randomOf } from "./random.ts";
import { partners } from "./real.ts";

/** 10^15 minor units, the most that an amount may be. */
const LARGEST = "10000000000000.00";
/**
 * The text that a sender writes for an amount of this currency. Without a named currency it is read
 * in cents.
 */
const amountOf = (
  { below, chance, pick }: Random,
  currency: string | undefined,
  isNamed = true,
  smallest = "",
): string => {
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
  if (currency !== "KWD" && chance(0.01)) return LARGEST;
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
  readonly focus: "refunds" | "caps" | "held" | "room" | "totals" | "order" | "customer" | null;
  /** Nearly all happenings are leads. */
  readonly ofLeads: boolean;
  /**
   * The event types that contracts pay for beside purchases; a custom name earns only under a
   * contract for it.
   */
  readonly types: readonly string[];
  readonly soFar: readonly Happening[];
  /** Many sales are rows of two files, which may be undone. */
  readonly hasFiles: boolean;
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
    ? pick(` ${order}`, `${order}\t`, order.normalize("NFD"), `${order.slice(0, 1)}\u200b${order.slice(1)}`)
    : chance(0.02)
      ? pick("null", "N/A", " test", "00", "-")
      : order;

/** Other spellings of an id, and sometimes a placeholder in its place. */
const speltId = ({ chance, pick }: Random, id: string): string =>
  chance(0.1)
    ? pick(` ${id}`, `${id}\t`, `${id.slice(0, 1)}\u200b${id.slice(1)}`, `\ufeff${id}`)
    : chance(0.03)
      ? pick("null", "000", "-", "NaN", "[object Object]", "false")
      : id;

const happensTo = (random: Random, scene: Scene, place: Place): Sent => {
  const { chance, pick } = random;
  const { lateHours } = scene.clients.find(({ id }) => id === place.client)!;
  const [late, page] = [lateHours * HOUR, HOUR / 6];
  // The sales of one customer come in any order, months apart.
  const isOfCustomer = scene.focus === "customer";
  const ago = isOfCustomer
    ? pick(0, HOUR, 2 * DAY, 29 * DAY, 31 * DAY, 62 * DAY, 90 * DAY)
    : pick(0, 0, 1, page, page + 1, HOUR, 2 * DAY, late, late + 1, 40 * DAY, -HOUR);
  const ts = place.receivedAt - ago;
  const isPixel = !isOfCustomer && chance(0.4);
  // Only times of files and pulls may lie months back.
  const door = isOfCustomer
    ? ("pull" as const)
    : pick(undefined, undefined, undefined, "upload" as const, "pull" as const);
  const file = scene.hasFiles && !isPixel && chance(0.6) ? { door: "upload" as const, file: pick("f1", "f2") } : {};
  return {
    ...{ is: "event", ...place, t: "purchase", ts, isPixel },
    ...(!isPixel && door !== undefined && { door }),
    ...file,
    did: isOfCustomer ? pick("d1", "d1", "d1", "d1", "d1", "d1", "d2", "guest") : pick("d1", "d2", "guest", " d1"),
    ...(chance(isOfCustomer ? 0.1 : 0.3) && { person: pick("p1", "p2") }),
    ...(scene.focus === null
      ? { verdict: pick("ok", "ok", "ok", "review", "reject"), ...clickIn(random, scene, ts, place.receivedAt) }
      : {
          verdict: chance(scene.focus === "held" ? 0.6 : 0.15) ? "review" : "ok",
          ...((chance(0.9) || isOfCustomer) && {
            click: { partner: pick(...scene.claimants), at: Math.min(ts, place.receivedAt) - HOUR },
          }),
        }),
    ...(chance(0.2) && { coupon: pick("SAVE", "OTHER", "save", " Other ") }),
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
    one.is !== "reprocess" &&
    one.is !== "undo" &&
    one.product === product &&
    one.order?.normalize("NFC").trim() === order;
  const sold = lines.filter((line) => soFar.some((one) => one.is === "event" && names(one, line)));
  const decided = lines.filter((line) => soFar.some((one) => one.is === "decision" && names(one, line)));
  const fresh = lines.filter((line) => !sold.includes(line));
  const awaited = fresh.filter((line) => decided.includes(line));
  if (focus === "totals" && fresh.length > 0 && chance(0.7)) return pick(...fresh);
  if ((focus !== "room" && focus !== "customer" && focus !== "held") || chance(0.15))
    return { order: pick(...orders), product: pick(...products) };
  if (isSold) return pick(...(sold.length > 0 ? sold : lines));
  if (awaited.length > 0 && chance(0.5)) return pick(...awaited);
  return pick(...(fresh.length > 0 ? fresh : lines));
};

const purchaseIn = (random: Random, scene: Scene, place: Place): Sent => {
  const { chance, pick } = random;
  const { order, product } = lineIn(random, scene, false);
  const hasTotal = scene.soFar.some((one) => one.is === "event" && one.t !== "refund" && one.product === undefined);
  const isTotal = scene.hasTotals && chance(scene.focus === "totals" && hasTotal ? 0.1 : 0.4);
  const named = scene.currencies.get(`${order} ${product}`);
  const currency = chance(0.3) ? undefined : named;
  const smallest = scene.hasWorthless ? "0" : "";
  const amount = (): string => amountOf(random, named, currency !== undefined, smallest);
  const isUsual = scene.focus === "totals" && chance(0.8);
  const odd = named === "JPY" && currency !== undefined ? "33" : "33.33";
  const round = named === "JPY" && currency !== undefined ? "100" : "100.00";
  const total = isUsual ? round : pick(round, odd);
  const isCalledCustom = chance(0.1);
  const t = isTotal ? "ext_purchase" : isCalledCustom ? "custom" : pick("purchase", "ext_purchase");
  const sent = happensTo(random, scene, place);
  // Pages do not send this type.
  const isPixel = sent.isPixel && t !== "ext_purchase";
  const by =
    isPixel || isTotal || sent.door === "upload" || chance(0.95)
      ? { order: spelt(random, order) }
      : keyIn(random, sent);
  return {
    ...{ ...sent, t, ...(t === "custom" && { name: "purchase" }) },
    ...{ isPixel, ...by },
    // Beside totals, a part of the order that nothing names is not rare.
    ...(!isTotal && { product: scene.hasTotals && chance(0.12) ? "n/a" : speltId(random, product) }),
    ...(chance(0.85) && { segment: segmentIn(random, scene, product, sent.door === "upload") }),
    amount: isTotal
      ? totalIn(random, scene, total)
      : scene.hasTotals || scene.focus === "room" || scene.focus === "customer"
        ? total
        : amount(),
    ...(currency !== undefined && { currency }),
  };
};

/** The reports of one sale rarely disagree about its segment; a partner's does more often. */
const segmentIn = ({ chance, pick }: Random, scene: Scene, product: string, isOfPartner: boolean): string => {
  const usual = scene.hasTotals || product === "s1" ? "MX" : "VD";
  return chance(isOfPartner ? 0.3 : 0.06) ? pick("MX", "VD") : usual;
};

/** What a mapped payload or a pulled row has in the place of an order. */
const keyIn = (random: Random, { door }: Sent): Pick<Sent, "source" | "dedupKey" | "saleHash"> => {
  const key = random.pick("k1", "k1", "k2");
  return door === "pull" ? { saleHash: key } : { source: random.pick("generic:till", "generic:shop"), dedupKey: key };
};

/** The total of some lines of this amount, about as exact as shops are. */
const totalIn = ({ below, chance, pick }: Random, { products }: Scene, line: string): string => {
  if (chance(0.3)) return line;
  const [, decimals = ""] = line.split(".");
  const lines = chance(0.6) ? products.length : 1 + below(products.length);
  const apart = pick(0, 0, 0, 0, 0, 1, -2, 2 * lines, -2 * lines, 2 * lines + 1);
  const minor = Math.max(0, Number(line.replace(".", "")) * lines + apart);
  return decimals === "" ? `${minor}` : (minor / 100).toFixed(2);
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
  return {
    ...sent,
    t,
    ...email,
    ...((email.email === undefined || chance(0.4)) && { leadId: speltId(random, pick("l1", "l2")) }),
  };
};

/** The event that a refund names: it was sent before, is sent later, or never. */
const namedIn = (random: Random, scene: Scene, place: Place): Pick<Sent, "about" | "order" | "currency"> => {
  const { chance, pick, below } = random;
  const earlier = scene.soFar.filter(
    (one): one is Sent =>
      one.is === "event" && one.client === place.client && one.t !== "refund" && one.file === undefined,
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
  const isOfLine =
    about === undefined && (!scene.hasTotals || chance(0.5)) && chance(scene.focus === "room" ? 0.9 : 0.4);
  const product = isOfLine ? line : undefined;
  const own = scene.currencies.get(`${order} ${product ?? pick(...scene.products)}`);
  const named = about === undefined && own !== undefined && chance(0.7) ? (chance(0.95) ? own : "EUR") : undefined;
  const currency = about?.currency ?? named;
  const hasAmount = chance(scene.focus === "room" ? 0.3 : 0.7);
  // Of two sources, often as much as an earlier refund asks for.
  const before = scene.soFar.flatMap((one) =>
    one.is === "event" && one.t === "refund" && one.currency === currency ? (one.amount ?? []) : [],
  );
  const isAsBefore = before.length > 0 && chance(0.4);
  return {
    ...{ is: "event", ...place, t: "refund", ts: place.receivedAt, isPixel: false, did: "shop", verdict: "ok" },
    ...(about ?? { order: spelt(random, order) }),
    ...(product !== undefined && { product: speltId(random, product) }),
    ...(hasAmount && {
      amount: isAsBefore ? pick(...before) : amountOf(random, currency ?? own, currency !== undefined),
    }),
    ...(currency !== undefined && { currency }),
    ...(chance(0.4) && { source: "postback:stripe" }),
    ...(scene.hasFiles && about === undefined && chance(0.2) && { source: "upload", file: pick("f1", "f2") }),
    ...(chance(scene.focus === "refunds" ? 0.6 : 0.2) && { refundId: speltId(random, chance(0.8) ? "r1" : "s1") }),
  };
};

/** What a person says about a refund of an order, which may be held as the second of two. */
const refundDecisionIn = ({ chance, pick }: Random, { soFar }: Scene, place: Place): Decided | undefined => {
  const refunds = soFar.flatMap((one) =>
    one.is === "event" && one.t === "refund" && one.about === undefined && one.client === place.client ? [one] : [],
  );
  if (refunds.length < 2 || chance(0.7)) return undefined;
  const kind = pick("release", "release", "reject", "take_back");
  return { ...{ is: "decision", ...place, kind }, about: pick(...refunds).id };
};

const decisionIn = (random: Random, scene: Scene, place: Place): Decided => {
  const { chance, pick } = random;
  const ofRefund = refundDecisionIn(random, scene, place);
  if (ofRefund !== undefined) return ofRefund;
  const isOfRoom = scene.focus === "room";
  // Half of the decisions wait for their line, and then keep it from its partner.
  const { order, product: line } = lineIn(random, scene, chance(scene.focus === "held" ? 0.9 : 0.5));
  const product = chance(isOfRoom ? 0.9 : 0.4) && !scene.hasTotals ? { product: line } : {};
  const earlier = scene.soFar.filter(
    (one): one is Sent => one.is === "event" && one.t !== "refund" && one.client === place.client,
  );
  // What names a row of a file that is undone is tested by itself (tests/processors/undo.test.ts).
  const claims = earlier.filter(({ t, name, file }) => (t !== "custom" || name !== "looked") && file === undefined);
  const about = claims.length > 0 && chance(0.5) ? pick(...claims) : undefined;
  // The rules leave open what a release before its sale means, so none is drawn.
  const isKnown =
    about !== undefined ||
    earlier.some((one) => one.order === order && (product.product ?? one.product) === one.product);
  const isReleased =
    (scene.focus === "totals" && earlier.length > 0 && chance(0.4)) ||
    (scene.focus === "held" && isKnown && chance(0.7));
  const kind =
    isReleased && (about !== undefined || earlier.some((one) => one.order === order))
      ? "release"
      : (about !== undefined || product.product !== undefined) && chance(0.2)
        ? "flag"
        : pick("assign", "reattribute", "take_back", isKnown ? "release" : "assign", "reject");
  return {
    ...{ is: "decision", ...place, kind },
    ...(about === undefined ? { order, ...product } : { about: about.id }),
    ...(kind === "release" && scene.hasTotals && chance(0.6) && { keep: pick("total", "lines") }),
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

/** A window around an earlier happening, as long as a merge at most, or all of the past. */
const reprocessIn = ({ chance, pick }: Random, scene: Scene, { client, receivedAt }: Place): Reprocessed => {
  const at = pick(...scene.soFar).receivedAt;
  const window = { from: at - pick(0, HOUR, 47 * HOUR), to: at + pick(1, HOUR, 47 * HOUR) };
  const all = { from: 0, to: receivedAt + 2 * HOUR };
  return {
    ...{ is: "reprocess", id: `e${200 + scene.soFar.length}`, client, receivedAt: receivedAt + HOUR },
    ...(chance(0.2) ? all : window),
  };
};

/** The same event again, or another event with its id. */
const againIn = (random: Random, scene: Scene, place: Place): Sent | undefined => {
  const { chance, pick } = random;
  const earlier = scene.soFar.filter((one): one is Sent => one.is === "event");
  if (earlier.length === 0) return undefined;
  const again = { ...pick(...earlier), receivedAt: place.receivedAt };
  if (chance(0.5)) return again;
  // Where the amount says which line is met, the rules leave open which of two a refund names.
  const isMetByAmount = again.product === undefined || isPlaceholder(spelling(again.product));
  if (again.isPixel && isMetByAmount) return again;
  // A page's would be a sale of its own, of the same name here.
  const isOfEvenPlace = Number(place.id.slice(1)) % 2 === 0;
  if (again.order !== undefined && !again.isPixel && isOfEvenPlace) return { ...again, order: "Z" };
  return again.amount === undefined
    ? { ...again, order: "Z" }
    : { ...again, amount: again.amount === LARGEST ? "1.00" : `4${again.amount}` };
};

/**
 * Shares of twenty happenings: purchases, then others, then refunds up to these numbers; the rest
 * are decisions.
 */
const sharesOf = ({ focus, ofLeads, types }: Scene): readonly [number, number, number] => {
  if (focus === "refunds") return [8, 8, 19];
  if (focus === "caps") return [15, 15, 18];
  if (focus === "held") return [9, 9, 14];
  if (focus === "room") return [11, 11, 15];
  if (focus === "totals") return [14, 14, 16];
  if (focus === "order") return [12, 12, 15];
  if (focus === "customer") return [16, 16, 18];
  return [ofLeads ? 2 : 10, types.length > 1 ? (ofLeads ? 11 : 13) : 11, 16];
};

const undoIn = ({ pick }: Random, { soFar }: Scene, receivedAt: number): Undone | undefined => {
  const rows = soFar.flatMap((one) => (one.is === "event" && one.file !== undefined ? [one] : []));
  if (rows.length === 0) return undefined;
  const { client, file } = pick(...rows);
  return { is: "undo", id: `e${300 + soFar.length}`, client, file: file!, receivedAt };
};

const sceneOf = (random: Random, soFar: readonly Happening[]): Scene => {
  const { below, chance, pick } = random;
  const focus = pick(
    null,
    null,
    null,
    null,
    "refunds",
    "caps",
    "held",
    "room",
    "totals",
    "totals",
    "order",
    "customer",
  );
  const isOfCustomer = focus === "customer";
  const isOfTiers = focus === "held";
  const clients = (chance(0.1) ? [1, 2] : [1]).map((id) => ({
    ...{ id, currency: chance(0.7) || isOfCustomer || isOfTiers ? "MXN" : pick("USD", "JPY", "KWD") },
    holdDays: { purchase: pick(0, 30), lead_submit: 7 },
    lateHours: pick(1, 72, 72, 1_000),
  }));
  const hasTotals = focus === null ? chance(0.1) : focus === "totals";
  const ofLeads = focus === null && chance(0.15);
  const orders = ["A\u00e1", "B", "C"].slice(
    0,
    focus === null ? 1 + below(3) : focus === "caps" || focus === "held" || focus === "room" || isOfCustomer ? 3 : 1,
  );
  const most =
    focus === "totals"
      ? pick(2, 2, 2, 3, 4, 5)
      : focus === "room" || focus === "order" || isOfCustomer
        ? 3
        : 1 + below(hasTotals ? 2 : 3);
  const products = ["s1", "s2", "s3", "s4", "s5"].slice(0, most);
  return {
    ...{
      clients,
      orders,
      products,
      hasTotals,
      ofLeads,
      soFar,
      focus,
      hasWorthless: chance(focus === "order" ? 0.5 : 0.2),
    },
    types: ofLeads
      ? ["purchase", "lead_submit"]
      : isOfCustomer || isOfTiers
        ? ["purchase"]
        : ["purchase", ...pick([], [], ["lead_submit", "install"], ["install", "signup"], ["signup"])],
    claimants: focus === null ? partners : focus === "totals" ? [21, 22] : [21],
    currencies: new Map(
      orders.flatMap((order) => {
        // Tiers and caps have only one currency.
        const most = focus === "room" || isOfCustomer || isOfTiers ? undefined : pick(undefined, "MXN", "USD");
        return products.map((product) => [`${order} ${product}`, chance(0.1) ? pick("MXN", "USD") : most] as const);
      }),
    ),
    hasFiles: chance(0.3),
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
/** June, and sometimes July, of a partner is closed during the history, and perhaps reopened. */
const closedIn = ({ chance, pick }: Random, { clients }: Scene): readonly Closed[] =>
  clients.flatMap(({ id: client }) =>
    partners.flatMap((partner) =>
      [6, 7]
        .filter((month) => chance(month === 6 ? 0.2 : 0.05))
        .flatMap((month) => {
          const one = { client, partner, year: 2026, month, recordedAt: border + pick(HOUR, 3 * DAY, 9 * DAY) };
          const reopenedAt = one.recordedAt + pick(HOUR, 2 * DAY, 6 * DAY);
          return chance(0.3) ? [one, { ...one, recordedAt: reopenedAt, isReopened: true }] : [one];
        }),
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
  const hasJobs = scene.focus !== "held" && !scene.hasFiles && chance(0.4);
  const isLonger = isOfRoom || ["customer", "totals", "held"].includes(scene.focus ?? "");
  for (let n = 0, many = 3 + below(8) + (isLonger ? 2 : 0); n < many; n++) {
    if (scene.focus === "totals" && chance(0.8)) receivedAt += pick(1_000, HOUR, 5 * HOUR);
    else receivedAt += pick(1_000, HOUR, 20 * HOUR, 48 * HOUR, 48 * HOUR + 1, longest);
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
    // A job credits what no fact of the history says, so a reprocess would undo it.
    else if (!hasJobs && (n === 4 || n === 7) && chance(0.5)) happenings.push(reprocessIn(random, scene, place));
    const undo = scene.hasFiles && chance(0.2) ? undoIn(random, scene, receivedAt + 2 * HOUR) : undefined;
    if (undo !== undefined) {
      happenings.push(undo);
      receivedAt += 2 * HOUR;
    }
    if (n !== 5 || chance(0.5)) continue;
    receivedAt += HOUR;
    happenings.push({ is: "look-up", id: "looked", receivedAt });
  }
  const last = scene.hasFiles && chance(0.6) ? undoIn(random, scene, receivedAt + HOUR / 2) : undefined;
  if (last !== undefined) happenings.push(last);
  happenings.push({ is: "look-up", id: "looked at last", receivedAt: receivedAt + HOUR });
  const [patterns, closed] = [patternsOf(random, scene), closedIn(random, scene)];
  // Clocks of edges differ, and partitions lag: what was received earlier may be read later.
  const isUneven = chance(0.15);
  // No two at one moment, for then their ids, which only the product knows, would decide.
  const uneven = (one: Happening, n: number): Happening =>
    isUneven && one.is === "event" && chance(0.3)
      ? { ...one, receivedAt: one.receivedAt - pick(1_000, HOUR, 5 * HOUR) - 7 * (n + 1) }
      : one;
  return { clients: scene.clients, contracts, patterns, closed, happenings: happenings.map(uneven) };
};
