// Histories drawn at random from a seed: small ones, around a month border and the 48 hours of a merge.
import type { ContractSaved, Decided, History, Sent } from "./history.ts";
import { partners } from "./real.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
/** July 2026 begins in Mexico City. */
const border = Date.UTC(2026, 6, 1, 6);
const longAgo = Date.UTC(2026, 0, 1, 6);

/** Mulberry32: the same seed, the same numbers on every machine. */
export const randomOf = (seed: number) => {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
  const below = (n: number): number => Math.floor(next() * n);
  return {
    below,
    chance: (share: number): boolean => next() < share,
    pick: <T>(...all: readonly T[]): T => all[below(all.length)]!,
  };
};
type Random = ReturnType<typeof randomOf>;

/** Rules between events that the code does not keep yet: nothing is drawn that would show one. */
const notYet: ReadonlySet<number> = new Set([6]);
const holds = (rule: number): boolean => !notYet.has(rule);

const draw = {
  amount: ({ below, pick }: Random, mayBeNothing = false): string =>
    pick(
      "100.00",
      "33.33",
      "0.05",
      mayBeNothing ? "0.00" : "0.01",
      `${1 + below(300)}.${`${below(100)}`.padStart(2, "0")}`,
    ),
  cents: ({ below }: Random, most: number): bigint => BigInt(1 + below(most)),
};

const termsOf = (
  random: Random,
  family: number,
): Omit<ContractSaved, "client" | "partner" | "segment" | "event_type" | "from" | "to" | "recordedAt"> => {
  const { pick, chance, below } = random;
  const rate_ppm = pick(100_000n, 333_333n, 125_000n, BigInt(below(1_000_001)));
  const amount = draw.cents(random, 30_00);
  const limits = {
    ...(chance(0.2) && { min: draw.cents(random, 5_00) }),
    ...(chance(0.2) && { max: 5_00n + draw.cents(random, 20_00) }),
  };
  const cap = {
    cap: {
      period: ([undefined, undefined, "day", "month", "lifetime"] as const)[family % 5]!,
      amount: draw.cents(random, 40_00),
    },
  };
  const capped = family % 5 < 2 ? {} : cap;
  const type = pick("percent", "percent", "flat", "hybrid");
  if (type === "flat") return { type, amount, ...capped };
  if (type === "hybrid") return { type, amount, rate_ppm, ...limits, ...capped };
  return { type, rate_ppm, ...limits, ...capped };
};

const contractsOf = (random: Random, clientId: number): readonly ContractSaved[] => {
  const { chance, below, pick } = random;
  return partners.flatMap((partner) => {
    const family = below(5);
    const segments = chance(0.3) ? [null, "MX"] : [null];
    return (["purchase"] as const).flatMap((event_type) =>
      segments.flatMap((segment): readonly ContractSaved[] => {
        if (chance(0.1)) return [];
        const base = { client: clientId, partner, segment, event_type, recordedAt: longAgo };
        const first = { ...base, from: longAgo, to: null, ...termsOf(random, family) };
        if (!chance(0.4) || (!holds(5) && first.cap !== undefined)) return [first];
        return [first, { ...base, from: pick(border, border - DAY), to: null, ...termsOf(random, family) }];
      }),
    );
  });
};

export const historyOf = (seed: number): History => {
  const random = randomOf(seed);
  const { below, chance, pick } = random;
  const clients = (chance(0.1) ? [1, 2] : [1]).map((id) => ({
    id,
    currency: chance(0.8) ? "MXN" : "USD",
    holdDays: { purchase: 30 },
  }));
  const orders = ["A", "B", "C"].slice(0, 1 + below(3));
  const products = ["s1", "s2", "s3"].slice(0, 1 + below(3));
  const rival = holds(6) || products.length === 1 ? partners : [pick(...partners)];
  // What an amount takes back from a sale of nothing is not decided: such histories refund all or nothing.
  const hasWorthless = chance(0.2);
  const currencyOf = new Map(orders.map((order) => [order, pick(undefined, "MXN", "USD")]));
  let now = border - pick(2 * HOUR, DAY, 3 * DAY);
  const many = 3 + below(8);
  const happenings: (Sent | Decided)[] = [];
  for (let n = 0; n < many; n++) {
    now += pick(1_000, HOUR, 20 * HOUR, 48 * HOUR, 48 * HOUR + 1, 3 * DAY);
    if (chance(0.1)) now = Math.max(now, border - pick(0, 1));
    const client = pick(...clients).id;
    const order = pick(...orders);
    const kind = below(10);
    const common = { id: `e${n}`, client, receivedAt: now };
    if (kind < 6) {
      const product = pick(...products);
      const ts = now - pick(0, 0, 1, HOUR, 2 * DAY, -HOUR);
      happenings.push({
        is: "event",
        ...common,
        t: pick("purchase", "purchase", holds(2) ? "ext_purchase" : "purchase"),
        ts,
        isPixel: chance(0.4),
        did: pick("d1", "d2"),
        verdict: pick("ok", "ok", "ok", "review", holds(3) ? "reject" : "ok"),
        ...(chance(0.7) && {
          click: {
            partner: pick(...rival),
            at: Math.min(ts, now) - pick(1, HOUR, 30 * DAY, 30 * DAY + 1),
            ...(chance(0.05) && { isForged: true }),
          },
        }),
        order,
        product,
        segment: product === "s1" ? "MX" : "VD",
        amount: draw.amount(random, hasWorthless),
        currency: currencyOf.get(order)!,
      });
    } else if (kind < 8)
      happenings.push({
        is: "event",
        ...common,
        t: "refund",
        ts: now,
        isPixel: false,
        did: "shop",
        verdict: "ok",
        order,
        ...(chance(holds(8) || products.length === 1 ? 0.4 : 1) && { product: pick(...products) }),
        ...(!hasWorthless && chance(0.7) && { amount: draw.amount(random) }),
        currency: currencyOf.get(order)!,
      });
    else {
      const product = chance(0.4) ? pick(...products) : undefined;
      // What a release that comes before its sale is for is not decided.
      const isKnown = happenings.some(
        (one) =>
          one.is === "event" &&
          one.t !== "refund" &&
          one.client === client &&
          one.order === order &&
          (product === undefined || one.product === product),
      );
      const decided = pick("assign", "reattribute", "take_back", isKnown ? "release" : "assign", "reject");
      happenings.push({
        is: "decision",
        ...common,
        kind: decided,
        order,
        ...(product !== undefined && { product }),
        ...((decided === "assign" || decided === "reattribute") && { partner: pick(...partners) }),
      });
    }
  }
  return { clients, contracts: clients.flatMap(({ id }) => contractsOf(random, id)), happenings };
};
