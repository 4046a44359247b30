// Draws contracts at random: plain, recurring and tiered ones, with caps that several may share.
import type { ContractSaved, Terms } from "./history.ts";
import { border, centsOf, DAY, HOUR, longAgo, type Random } from "./random.ts";
import { partners } from "./real.ts";

const tiersOf = (random: Random): Terms => {
  const { chance, pick } = random;
  const paysAmounts = chance(0.3);
  const price = (): bigint => (paysAmounts ? centsOf(random, 20_00) : centsOf(random, 500_000));
  const second = paysAmounts ? pick(1n, 2n, 3n) : 10_00n + centsOf(random, 200_00);
  const steps = [0n, second, second + (paysAmounts ? 1n : 100_00n)].slice(0, pick(1, 2, 3));
  const prices = steps.map(price);
  // Retroactive tiers whose price falls are refused when they are saved.
  const isRetroactive = chance(0.4);
  if (isRetroactive) prices.sort((a, b) => Number(a - b));
  const tiers = steps.map((from, n) => ({ from, price: prices[n]! }));
  return { type: "tiered", tiers, paysAmounts, isRetroactive };
};

/** The common traits of one partner's contracts, so that one may follow another. */
interface Family {
  readonly kind: "plain" | "recurring" | "tiered" | "mixed";
  readonly period: "day" | "month" | "lifetime" | null;
  /**
   * The amount of one shared cap; null if each contract has an amount of its own, while counts go
   * on.
   */
  readonly most: bigint | null;
  /** How many of a hundred pay once an order, as a share. */
  readonly perOrder: number;
}
const termsOf = (random: Random, { kind, period, most, perOrder }: Family): Terms => {
  const { pick, chance, below } = random;
  // Some contracts of a family have no cap, and their pay does not count for it.
  const once = chance(perOrder) && { isPerOrder: true };
  const limits = period === null || chance(0.1) ? {} : { cap: { period, amount: most ?? centsOf(random, 40_00) } };
  const cap = { ...limits, ...once };
  if (kind === "tiered" || (kind === "mixed" && chance(0.5))) return { ...tiersOf(random), ...cap };
  const rate_ppm = pick(100_000n, 333_333n, 125_000n, BigInt(1 + below(1_000_000)));
  const amount = centsOf(random, 30_00);
  const ofMonths = kind === "recurring" ? 0.5 : 0.2;
  const min = chance(ofMonths) ? { min: centsOf(random, 5_00) } : {};
  const max = chance(ofMonths) ? { max: 5_00n + centsOf(random, 20_00) } : {};
  if (kind === "recurring") {
    const pays = chance(0.3) ? { amount } : { rate_ppm };
    return { type: "recurring", ...pays, ...min, ...max, ...cap, ...(chance(0.8) && { months: pick(1, 1, 2) }) };
  }
  const type = pick("percent", "percent", "flat", "hybrid");
  if (type === "flat") return { type, amount, ...cap };
  return { type, rate_ppm, ...min, ...max, ...cap, ...(type === "hybrid" && { amount }) };
};

/** One sale fills the cap; after the border the second contract continues with the same cap. */
const roomOf = (random: Random, client: number): readonly ContractSaved[] => {
  const { chance, pick } = random;
  const most = chance(0.5) ? centsOf(random, 10_00) : null;
  const period = pick("month", "lifetime");
  const kinds = chance(0.7) ? (["plain", "tiered"] as const) : (["tiered", "plain"] as const);
  return kinds.map((kind, n) => ({
    ...{ client, partner: partners[0], segment: null, event_type: "purchase", recordedAt: longAgo, to: null },
    ...{ from: n === 0 ? longAgo : border + pick(-HOUR, HOUR, DAY, 3 * DAY) },
    ...termsOf(random, { kind, period, most: most ?? centsOf(random, 20_00), perOrder: 0.5 }),
  }));
};

/** The traits of a history that its contracts depend on. */
export interface Paying {
  readonly types: readonly string[];
  readonly focus: string | null;
}

export const contractsOf = (random: Random, client: number, { types, focus }: Paying): readonly ContractSaved[] => {
  const { chance, pick } = random;
  if (focus === "room") return roomOf(random, client);
  const ofCaps = focus === "caps";
  const ofTiers = focus === "held";
  const ofCustomer = focus === "customer";
  return partners.flatMap((partner) => {
    const kind = ofTiers
      ? "tiered"
      : ofCaps
        ? pick("mixed", "mixed", "tiered")
        : ofCustomer
          ? "recurring"
          : pick("plain", "plain", "plain", "recurring", "tiered", "mixed");
    const hasTiers = kind === "tiered" || kind === "mixed";
    const period = chance(ofCaps ? 0.1 : ofCustomer || ofTiers ? 0.8 : 0.6)
      ? null
      : pick(hasTiers ? "month" : "day", "month", "lifetime");
    const isShared = (kind === "mixed" || (hasTiers && period === "lifetime")) && chance(0.5);
    const family = {
      kind,
      period,
      most: isShared ? centsOf(random, 40_00) : null,
      perOrder: focus === "order" || ofCustomer ? 0.9 : 0.5,
    } as const;
    const segments = chance(0.3) ? [null, "MX"] : [null];
    return types.flatMap((event_type) =>
      segments.flatMap((segment): readonly ContractSaved[] => {
        if (chance(0.1)) return [];
        const base = { client, partner, segment, event_type, recordedAt: longAgo, to: null };
        const first = { ...base, from: longAgo, ...termsOf(random, family) };
        if (!chance(ofCaps ? 0.9 : 0.3)) return [first];
        const recordedAt = chance(0.5) ? border + pick(-DAY, HOUR, 3 * DAY, 9 * DAY) : longAgo;
        const from = pick(border, border - DAY, border - 9 * DAY, border + DAY, border + 4 * DAY, border + 10 * DAY);
        const next = { ...base, recordedAt, from, ...termsOf(random, family) };
        return [first, chance(0.3) ? { ...next, from: pick(from, longAgo), isNextVersion: true } : next];
      }),
    );
  });
};
