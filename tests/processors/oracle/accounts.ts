// The second half of the oracle: what a credited line earns under its contract, and what a month of
// tiers adds up to.
import type { ContractSaved, History, Sent } from "./history.ts";

export const HOUR = 3_600_000;
const MILLION = 1_000_000n;
/** Mexico City has kept UTC-6 all year since 2022. */
const local = (at: number): Date => new Date(at - 6 * HOUR);
export const monthOf = (at: number): string => `${local(at).getUTCFullYear()}-${local(at).getUTCMonth() + 1}`;
const periodOf = { lifetime: () => "", month: monthOf, day: (at: number) => local(at).toISOString().slice(0, 10) };
export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
export const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);
export const sum = (all: readonly bigint[]): bigint => all.reduce((total, one) => total + one, 0n);
export const halfEven = (n: bigint, d: bigint): bigint => {
  const twice = (n % d) * 2n;
  return n / d + (twice > d || (twice === d && (n / d) % 2n === 1n) ? 1n : 0n);
};
const weakDevices = ["null", "none", "undefined", "anonymous", "guest", "0", "n/a", "nan"];

/** The value of a line for its partner. */
export interface Worth {
  readonly first: Sent;
  readonly type: string;
  readonly at: number;
  readonly partner: number;
  readonly value: bigint;
  readonly currency: string;
  /** Credited without a commission. */
  readonly isQuiet: boolean;
}
/** A credited line under one contract; only its refunded part changes. */
export interface Credit extends Worth {
  readonly terms: ContractSaved | undefined;
  readonly earned: bigint;
  isHeld: boolean;
  refunded: bigint;
  isBack: boolean;
}
export const owed = ({ earned, refunded, value, isBack }: Credit): bigint =>
  isBack ? 0n : value === 0n ? earned : earned - halfEven(earned * refunded, value);

export class Accounts {
  readonly #history: History;
  /** Credits in force, in the order of booking. */
  #credits: readonly Credit[] = [];
  readonly #firstSale = new Map<string, number>();
  /** The last settlement of each month of tiers, with its part of the cap. */
  readonly #months = new Map<
    string,
    {
      readonly name: string;
      readonly month: string;
      readonly ofCap: bigint;
      readonly paid: ReadonlyMap<ContractSaved, bigint>;
      readonly money: Readonly<Record<string, bigint>>;
    }
  >();
  constructor(history: History) {
    this.#history = history;
  }

  contractsOf(client: number, type: string, at: number, known: number): readonly ContractSaved[] {
    const kind = type === "ext_purchase" ? "purchase" : type;
    return this.#history.contracts.filter(
      ({ client: of, event_type, recordedAt, from, to }) =>
        of === client && event_type === kind && recordedAt <= known && from <= at && at < (to ?? Infinity),
    );
  }

  holdOf(client: number, type: string): number {
    const { holdDays } = this.#history.clients.find(({ id }) => id === client)!;
    return (holdDays[type === "ext_purchase" ? "purchase" : type] ?? 0) * 24 * HOUR;
  }

  close(credit: Credit | null): void {
    if (credit === null) return;
    this.#credits = this.#credits.filter((one) => one !== credit);
    if (!credit.isBack) this.settle(credit);
  }

  /**
   * Books a line under the latest contract that was known then: that of its segment, else that of
   * all segments.
   */
  open(worth: Worth, known: number): Credit {
    const { first, type, at, partner, isQuiet } = worth;
    const [terms] = (isQuiet ? [] : this.contractsOf(first.client, type, at, known))
      .filter((one) => one.partner === partner && (one.segment ?? first.segment) === first.segment)
      .sort((a, b) => Number(a.segment === null) - Number(b.segment === null) || b.from - a.from);
    const earned = terms === undefined ? 0n : this.#earns(worth, terms);
    const credit = { ...worth, terms, earned, isHeld: false, refunded: 0n, isBack: false };
    this.#credits = [...this.#credits, credit];
    this.settle(credit);
    return credit;
  }

  #earns(worth: Worth, terms: ContractSaved): bigint {
    const { value } = worth;
    if (terms.type === "tiered" || this.#isOfOtherCurrency(worth, terms)) return 0n;
    if (terms.type === "recurring" && !this.#isWithin(worth, terms)) return 0n;
    let earned = (terms.amount ?? 0n) + halfEven(value * (terms.rate_ppm ?? 0n), MILLION);
    if (value > 0n) earned = most(earned, terms.min ?? earned);
    earned = least(earned, terms.max ?? earned);
    if (terms.cap === undefined) return earned;
    return most(0n, least(earned, terms.cap.amount - this.#usedOf(worth, terms, null)));
  }

  /**
   * The used part of a cap: by sales that earn one by one, and by all months of tiers except `but`.
   * Counts belong to partner, client, segment, event type and period.
   */
  #usedOf({ first, partner, at }: Worth, { event_type, segment, cap }: ContractSaved, but: string | null): bigint {
    const { period } = cap!;
    const ofSales = this.#credits.filter(
      ({ terms, ...one }) =>
        `${one.first.client} ${one.partner}` === `${first.client} ${partner}` &&
        `${terms?.event_type} ${terms?.segment}` === `${event_type} ${segment}` &&
        terms!.type !== "tiered" &&
        terms!.cap !== undefined &&
        periodOf[period](one.at) === periodOf[period](at),
    );
    const name = `${first.client} ${partner} ${event_type} ${segment}`;
    const ofMonths = [...this.#months].filter(
      ([key, one]) => key !== but && one.name === name && (period === "lifetime" || one.month === monthOf(at)),
    );
    return sum(ofSales.map(owed)) + sum(ofMonths.map(([, { ofCap }]) => ofCap));
  }

  #isOfOtherCurrency({ first, currency }: Worth, { type, amount, min, max, cap }: ContractSaved): boolean {
    const holdsAmounts = type === "tiered" || [amount, min, max, cap].some((one) => one !== undefined);
    return holdsAmounts && currency !== this.#history.clients.find(({ id }) => id === first.client)!.currency;
  }

  /**
   * The months of a customer begin with the first sale that has a value. A weak device is no
   * customer.
   */
  #isWithin({ first, at, partner, value }: Worth, { months, event_type }: ContractSaved): boolean {
    if (value === 0n) return false;
    const isWeak = weakDevices.includes(first.did.trim().toLowerCase());
    const device = isWeak ? `event ${first.id}` : first.did;
    const customer = `${first.client} ${partner} ${event_type} ${first.person ?? device}`;
    const start = local(Math.min(at, this.#firstSale.get(customer) ?? at));
    this.#firstSale.set(customer, start.getTime() + 6 * HOUR);
    if (months === undefined) return true;
    const [year, month] = [start.getUTCFullYear(), start.getUTCMonth() + months];
    const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
    return at < Date.UTC(year, month, Math.min(start.getUTCDate(), lastDay), 6);
  }

  /**
   * A change of a sale with tiers settles its month again. Payable is the sum without the sales
   * under review, and the rest is held. Parts of its cap that others took meanwhile stay theirs,
   * but a cap that is larger than its own takes nothing away from what the month was paid before.
   */
  settle(credit: Credit): void {
    const { first, partner, terms, currency, at } = credit;
    if (terms?.type !== "tiered" || this.#isOfOtherCurrency(credit, terms)) return;
    const name = `${first.client} ${partner} ${terms.event_type} ${terms.segment}`;
    const key = `${name} ${monthOf(at)}`;
    const credits = this.#credits.filter(
      (one) =>
        one.terms?.type === "tiered" &&
        `${one.first.client} ${one.partner} ${one.terms.event_type} ${one.terms.segment} ${monthOf(one.at)}` === key &&
        !this.#isOfOtherCurrency(one, one.terms),
    );
    const before = this.#months.get(key)?.paid;
    const earned = (table: ContractSaved): bigint => earnedBy(table, credits);
    const caps = {
      used: (table: ContractSaved): bigint => this.#usedOf(credit, table, key),
      kept: (table: ContractSaved): bigint => least(earned(table), before?.get(table) ?? 0n),
    };
    const tables = tablesOf(credits);
    const all = earnedByTiers(tables, earned, caps);
    const free = credits.filter(({ isHeld }) => !isHeld);
    const clear = least(all.total, earnedByTiers(tables, (table) => earnedBy(table, free), caps).total);
    const [who, what] = [`${first.client}/tiers ${partner}`, `${currency} ${monthOf(at)}`];
    const money = { [`${who} payable ${what}`]: clear, [`${who} held ${what}`]: all.total - clear };
    this.#months.set(key, { name, month: monthOf(at), ...all, money });
  }

  tiers(): Readonly<Record<string, bigint>> {
    const money: Record<string, bigint> = {};
    for (const month of this.#months.values())
      for (const [name, amount] of Object.entries(month.money)) money[name] = (money[name] ?? 0n) + amount;
    return money;
  }
}

/**
 * The part of a sale that still counts for the month's volume: its money, or millionths of a sale.
 */
const unitsOf = ({ value, refunded, isBack }: Credit, countsSales: boolean | undefined): bigint => {
  if (!countsSales) return value - refunded;
  return isBack ? 0n : value === 0n ? MILLION : MILLION - halfEven(MILLION * refunded, value);
};
const tablesOf = (credits: readonly Credit[]): readonly ContractSaved[] =>
  [...new Set(credits.map(({ terms }) => terms!))].sort((a, b) => a.from - b.from || a.recordedAt - b.recordedAt);
/**
 * `used`: the part of a table's cap that others took. `kept`: the pay of before that it still
 * earns.
 */
interface Caps {
  readonly used: (table: ContractSaved) => bigint;
  readonly kept: (table: ContractSaved) => bigint;
}
/** Earlier tables fill a cap first, each up to its own limit. */
const earnedByTiers = (
  tables: readonly ContractSaved[],
  earned: (table: ContractSaved) => bigint,
  { used, kept }: Caps,
) => {
  const paid = new Map<ContractSaved, bigint>();
  let [ofCap, had, total] = [0n, 0n, 0n];
  for (const table of tables) {
    let part = earned(table);
    if (table.cap !== undefined) {
      had += kept(table);
      const room = most(table.cap.amount - used(table), least(table.cap.amount, had));
      part = least(part, most(0n, room - ofCap));
      ofCap += part;
    }
    paid.set(table, part);
    total += part;
  }
  return { total, ofCap, paid };
};
/**
 * The sales of a table earn their part of the volume, which lies above that of earlier tables: the
 * pay of the table up to its end less its pay up to its beginning, both rounded.
 */
const earnedBy = (table: ContractSaved, credits: readonly Credit[]): bigint => {
  const { tiers = [], paysAmounts, isRetroactive } = table;
  const steps = tiers.map(({ from, price }) => ({ from: paysAmounts ? from * MILLION : from, price }));
  const unitsOfAll = (tables: readonly ContractSaved[]): bigint =>
    sum(credits.map((one) => (tables.includes(one.terms!) ? unitsOf(one, paysAmounts) : 0n)));
  const inOrder = tablesOf(credits);
  const own = unitsOfAll([table]);
  const below = unitsOfAll(inOrder.slice(0, Math.max(0, inOrder.indexOf(table))));
  const paysUpTo = (end: bigint): bigint =>
    sum(steps.map(({ from, price }, n) => most(0n, least(end, steps[n + 1]?.from ?? end) - from) * price));
  const price = steps.filter(({ from }) => from <= unitsOfAll(inOrder)).at(-1)!.price;
  if (isRetroactive) return halfEven(own * price, MILLION);
  return halfEven(paysUpTo(below + own), MILLION) - halfEven(paysUpTo(below), MILLION);
};
