// The second half of the oracle: what a credited line earns under its contract, and what a month of
// tiers adds up to.
import type { ContractSaved, History, Sent } from "./history.ts";

export const HOUR = 3_600_000;
const MILLION = 1_000_000n;
/** Mexico City has kept UTC-6 all year since 2022. */
const local = (at: number): Date => new Date(at - 6 * HOUR);
export const monthOf = (at: number): string => `${local(at).getUTCFullYear()}-${local(at).getUTCMonth() + 1}`;
export const periodOf = {
  lifetime: () => "",
  month: monthOf,
  day: (at: number) => local(at).toISOString().slice(0, 10),
};
export const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
export const most = (a: bigint, b: bigint): bigint => (a > b ? a : b);
export const sum = (all: readonly bigint[]): bigint => all.reduce((total, one) => total + one, 0n);
export const halfEven = (n: bigint, d: bigint): bigint => {
  const twice = (n % d) * 2n;
  return n / d + (twice > d || (twice === d && (n / d) % 2n === 1n) ? 1n : 0n);
};
const weakIds = "null undefined none 0 n/a test nan - false".split(" ");
/** The one spelling of ids: invisible characters and outer spaces count for nothing. */
export const spelt = (id: string): string =>
  id
    .replace(/[\u200b-\u200f\u2060\ufeff\u00ad]/g, "")
    .normalize("NFC")
    .trim();
export const isPlaceholder = (id: string): boolean =>
  weakIds.includes(id.toLowerCase()) || /^0+$/.test(id) || id.toLowerCase() === "[object object]";
const weakDevices = ["null", "none", "undefined", "anonymous", "guest", "0", "n/a", "nan"];

/** The value of a line for its partner. */
export interface Worth {
  readonly first: Sent;
  /** The first segment that any copy names. */
  readonly segment: string | undefined;
  /** The first person that any copy names. */
  readonly person: string | undefined;
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
  earned: bigint;
  /** Not once the months of its customer are over. */
  isPaid: boolean;
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
  /** Orders in which one line had a value, whatever became of it. */
  readonly #hadValue = new Set<string>();
  constructor(history: History) {
    this.#history = history;
  }

  contractsOf(client: number, type: string, at: number, known: number): readonly ContractSaved[] {
    const kind = type === "ext_purchase" ? "purchase" : type;
    const { contracts } = this.#history;
    return contracts.filter(({ client: of, partner, event_type, recordedAt, from, to }, n) => {
      const next = contracts[n + 1];
      const isReplaced = next?.isNextVersion && next.partner === partner && next.event_type === event_type;
      if (isReplaced && next.recordedAt <= known) return false;
      return of === client && event_type === kind && recordedAt <= known && from <= at && at < (to ?? Infinity);
    });
  }

  holdOf(client: number, type: string): number {
    const { holdDays } = this.#history.clients.find(({ id }) => id === client)!;
    return (holdDays[type === "ext_purchase" ? "purchase" : type] ?? 0) * 24 * HOUR;
  }

  close(credit: Credit | null): void {
    if (credit === null) return;
    const [order, dues] = [this.#orderOf(credit), this.#dues(credit)];
    this.#credits = this.#credits.filter((one) => one !== credit);
    if (credit.isBack) return;
    this.settle(credit);
    this.#moveOn(credit, order, dues);
  }

  /** Its refunds or its hold have changed. Without anything left it leaves its order. */
  change(credit: Credit, now: Pick<Credit, "isHeld" | "refunded" | "isBack">): void {
    const [order, dues] = [this.#orderOf(credit), this.#dues(credit)];
    const isLeaving = now.isBack && !credit.isBack;
    const wasBack = credit.isBack;
    Object.assign(credit, now);
    // Of a sale of which nothing is left a release moves nothing: its month is not settled again.
    if (wasBack && now.isBack) return;
    this.settle(credit);
    if (isLeaving) this.#moveOn(credit, order, dues);
  }

  /**
   * What the lines have in common that one partner holds of an order by contracts that pay once an
   * order, also those that take no part in it any more. Null: the line stands by itself.
   */
  #shareOf({ first, type, partner, currency, terms }: Credit): string | null {
    const order = first.order === undefined ? undefined : spelt(first.order);
    if (!terms?.isPerOrder || order === undefined || isPlaceholder(order)) return null;
    if (type === "lead_submit" || type === "install") return null;
    const { event_type, segment } = terms;
    return JSON.stringify([first.client, partner, currency, event_type, segment, terms.type === "tiered", order]);
  }

  /** The lines of a credit's order that stand, in the order of booking. */
  #orderOf(credit: Credit): readonly Credit[] {
    const share = this.#shareOf(credit);
    if (share === null) return [];
    return this.#credits.filter(
      (one) => !one.isBack && this.#shareOf(one) === share && this.#takesPart(one, one.terms!) && !this.#isBeside(one),
    );
  }

  /** A line of 0 is no part of an order that has had a line with a value. */
  #isBeside(credit: Credit): boolean {
    return credit.value === 0n && this.#hadValue.has(this.#shareOf(credit) ?? "");
  }

  /** The first line with a value takes the place of the lines of 0. */
  #giveWay(credit: Credit, terms: ContractSaved): void {
    const share = this.#shareOf(credit);
    if (share === null || credit.value === 0n || this.#hadValue.has(share) || !this.#takesPart(credit, terms)) return;
    const worthless = this.#orderOf(credit);
    this.#hadValue.add(share);
    for (const one of worthless) one.earned = 0n;
    if (worthless[0] !== undefined) this.settle(worthless[0]);
  }

  /** Whether the contract pays such a line at all, and by an amount. */
  #takesPart(worth: Credit, terms: ContractSaved): boolean {
    if (this.#isOfOtherCurrency(worth, terms)) return false;
    if (terms.type === "tiered") return true;
    if ([terms.amount, terms.min, terms.max].every((one) => one === undefined)) return false;
    return worth.isPaid && !(terms.type === "percent" && worth.value === 0n);
  }

  /** What each line of a credit's order is due by it. */
  #dues(credit: Credit): ReadonlyMap<Credit, bigint> {
    return credit.terms?.type === "tiered" ? new Map() : duesOf(this.#orderOf(credit));
  }

  /** The others are due what the order earns without a line, as far as a cap has room. */
  #moveOn(credit: Credit, order: readonly Credit[], before: ReadonlyMap<Credit, bigint>): void {
    if (!order.includes(credit)) return;
    if (credit.terms?.type === "tiered") {
      const next = this.#orderOf(credit)[0];
      if (next !== undefined && order[0] === credit && monthOf(next.at) !== monthOf(credit.at)) this.settle(next);
      return;
    }
    for (const [one, due] of duesOf(this.#orderOf(credit))) {
      const more = due - before.get(one)!;
      const { cap } = one.terms!;
      const room = cap === undefined ? more : most(0n, cap.amount - this.#usedOf(one, one.terms!, null));
      if (more > 0n) one.earned += least(more, room);
      else if (more < 0n) one.earned = least(one.earned, due);
    }
  }

  /**
   * Books a line under the latest contract that was known then: that of its segment, else that of
   * all segments.
   */
  open(worth: Worth, known: number): Credit {
    const { first, segment, type, at, partner, isQuiet } = worth;
    const [terms] = (isQuiet ? [] : this.contractsOf(first.client, type, at, known))
      .filter((one) => one.partner === partner && (one.segment ?? segment) === segment)
      .sort((a, b) => Number(a.segment === null) - Number(b.segment === null) || b.from - a.from);
    const credit = { ...worth, terms, earned: 0n, isPaid: true, isHeld: false, refunded: 0n, isBack: false };
    if (terms !== undefined) this.#earns(credit, terms);
    this.#credits = [...this.#credits, credit];
    this.settle(credit);
    return credit;
  }

  #earns(credit: Credit, terms: ContractSaved): void {
    if (this.#isOfOtherCurrency(credit, terms)) return;
    if (terms.type === "tiered") {
      this.#giveWay(credit, terms);
      return;
    }
    if (terms.type === "recurring" && !this.#isWithin(credit, terms)) {
      credit.isPaid = false;
      return;
    }
    this.#giveWay(credit, terms);
    if (this.#isBeside(credit)) return;
    const order = this.#takesPart(credit, terms) ? this.#orderOf(credit) : [];
    const earned = duesOf([...order, credit]).get(credit)!;
    const room = terms.cap === undefined ? earned : terms.cap.amount - this.#usedOf(credit, terms, null);
    credit.earned = most(0n, least(earned, room));
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
   * The months of a customer begin with the first sale that a rate or an amount pays, whenever it
   * comes.
   */
  #isWithin(worth: Worth, terms: ContractSaved): boolean {
    const { at, value } = worth;
    if (value === 0n && terms.amount === undefined) return false;
    const customer = customerOf(worth, terms);
    const before = this.#firstSale.get(customer) ?? at;
    this.#firstSale.set(customer, Math.min(at, before));
    if (at < before) this.#endEarlier(customer, at);
    return at < endOf(Math.min(at, before), terms);
  }

  /** Sales behind the new end of their months earn nothing and leave their orders. */
  #endEarlier(customer: string, start: number): void {
    const lost = this.#credits.filter(
      ({ terms, isPaid, isBack, ...one }) =>
        terms?.type === "recurring" &&
        isPaid &&
        !isBack &&
        customerOf(one, terms) === customer &&
        one.at >= endOf(start, terms),
    );
    const was = lost.map((credit) => ({ credit, order: this.#orderOf(credit), dues: this.#dues(credit) }));
    for (const credit of lost) Object.assign(credit, { isPaid: false, earned: 0n });
    const moved = new Set<Credit>();
    for (const { credit, order, dues } of was) {
      if (moved.has(credit) || !order.includes(credit)) continue;
      this.#moveOn(credit, order, dues);
      for (const one of order) moved.add(one);
    }
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
    const counts = (one: Credit): boolean => !this.#isBeside(one) && (this.#orderOf(one)[0] ?? one) === one;
    const earned = (table: ContractSaved): bigint => earnedBy(table, credits, counts);
    const caps = {
      used: (table: ContractSaved): bigint => this.#usedOf(credit, table, key),
      kept: (table: ContractSaved): bigint => least(earned(table), before?.get(table) ?? 0n),
    };
    const tables = tablesOf(credits);
    const all = earnedByTiers(tables, earned, caps);
    const free = credits.filter(({ isHeld }) => !isHeld);
    const clear = least(all.total, earnedByTiers(tables, (table) => earnedBy(table, free, counts), caps).total);
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

/** A person, else a device; a weak device is no customer. Each kind of contract counts alone. */
const customerOf = (
  { first, person, partner }: Pick<Worth, "first" | "person" | "partner">,
  { event_type, segment }: ContractSaved,
): string => {
  const isWeak = weakDevices.includes(first.did.trim().toLowerCase());
  const device = isWeak ? `event ${first.id}` : first.did.trim();
  return `${first.client} ${partner} ${event_type} ${segment} ${person ?? device}`;
};
/** The months end on the same day of their last month, or on that month's last day. */
const endOf = (start: number, { months }: ContractSaved): number => {
  if (months === undefined) return Infinity;
  const [year, month] = [local(start).getUTCFullYear(), local(start).getUTCMonth() + months];
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return Date.UTC(year, month, Math.min(local(start).getUTCDate(), lastDay), 6);
};

/**
 * The part of a sale that still counts for the month's volume: its money, or millionths of a sale.
 */
const unitsOf = (credit: Credit, countsSales: boolean | undefined, counts: (one: Credit) => boolean): bigint => {
  const { value, refunded, isBack } = credit;
  if (!countsSales) return value - refunded;
  return isBack || !counts(credit) ? 0n : value === 0n ? MILLION : MILLION - halfEven(MILLION * refunded, value);
};
/**
 * The first line of an order carries its amounts. Each further one is due what the order earns with
 * it less what it earns without.
 */
const duesOf = (order: readonly Credit[]): ReadonlyMap<Credit, bigint> => {
  const upTo = (n: number): bigint => {
    const { amount = 0n, min, max } = order[0]!.terms!;
    const lines = order.slice(0, n);
    let earned = amount + sum(lines.map(({ value, terms }) => halfEven(value * (terms!.rate_ppm ?? 0n), MILLION)));
    if (min !== undefined && lines.some(({ value }) => value > 0n)) earned = most(earned, min);
    if (max !== undefined) earned = least(earned, max);
    return n === 0 ? 0n : earned;
  };
  return new Map(order.map((one, n) => [one, upTo(n + 1) - upTo(n)]));
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
const earnedBy = (table: ContractSaved, credits: readonly Credit[], counts: (one: Credit) => boolean): bigint => {
  const { tiers = [], paysAmounts, isRetroactive } = table;
  const steps = tiers.map(({ from, price }) => ({ from: paysAmounts ? from * MILLION : from, price }));
  const unitsOfAll = (tables: readonly ContractSaved[]): bigint =>
    sum(credits.map((one) => (tables.includes(one.terms!) ? unitsOf(one, paysAmounts, counts) : 0n)));
  const inOrder = tablesOf(credits);
  const own = unitsOfAll([table]);
  const below = unitsOfAll(inOrder.slice(0, Math.max(0, inOrder.indexOf(table))));
  const paysUpTo = (end: bigint): bigint =>
    sum(steps.map(({ from, price }, n) => most(0n, least(end, steps[n + 1]?.from ?? end) - from) * price));
  const price = steps.filter(({ from }) => from <= unitsOfAll(inOrder)).at(-1)!.price;
  if (isRetroactive) return halfEven(own * price, MILLION);
  return halfEven(paysUpTo(below + own), MILLION) - halfEven(paysUpTo(below), MILLION);
};
