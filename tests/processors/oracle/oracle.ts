// An accountant's answer to a history, from the written rules alone: what each line of an order came to, and who is owed
// what. Lists are added up again from their beginning at every step; nothing here is shared with the code it checks.
import type { Answers, ContractSaved, Decided, History, Line, Sent } from "./history.ts";

const HOUR = 3_600_000;
const MERGES = 48 * HOUR;
const MILLION = 1_000_000n;
/** Mexico City has kept UTC-6 all year since 2022. */
const local = (at: number): Date => new Date(at - 6 * HOUR);
const monthOf = (at: number): string => `${local(at).getUTCFullYear()}-${local(at).getUTCMonth() + 1}`;
const periodOf = { lifetime: () => "", month: monthOf, day: (at: number) => local(at).toISOString().slice(0, 10) };
const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);
const sum = (all: readonly bigint[]): bigint => all.reduce((total, one) => total + one, 0n);
const halfEven = (n: bigint, d: bigint): bigint => {
  const twice = (n % d) * 2n;
  return n / d + (twice > d || (twice === d && (n / d) % 2n === 1n) ? 1n : 0n);
};
const minor = (amount: string): bigint => BigInt(Math.round(Number(amount) * 100));
const types =
  "page_view view_product add_to_cart begin_checkout purchase install lead_submit form_start " +
  "form_submit ext_purchase refund click";
const weakOrders = ["null", "undefined", "none", "0", "n/a", "test"];
const weakDevices = ["null", "none", "undefined", "anonymous", "guest", "0", "n/a", "nan"];

/** A line as it is credited now: what it earned by one contract, and how much of that went back. */
interface Credit {
  readonly partner: number;
  readonly value: bigint;
  readonly currency: string;
  readonly isHeld: boolean;
  readonly contract: ContractSaved | undefined;
  readonly earned: bigint;
  refunded: bigint;
  /** All of it went back: of a line that is worth nothing too. */
  isBack: boolean;
}
interface Sale {
  readonly first: Sent;
  readonly type: string;
  readonly at: number;
  product: string | undefined;
  readonly copies: Sent[];
  holder: number | null;
  review: boolean;
  byPerson: boolean;
  refunded: bigint;
  isBack: boolean;
  credit: Credit | null;
}
interface Order {
  readonly sales: Sale[];
  readonly refunds: Sent[];
  readonly decisions: Decided[];
}

class Books {
  readonly orders = new Map<string, Order>();
  readonly seen = new Map<string, { readonly content: string; readonly order: Order | null }>();
  readonly refused: Record<string, string> = {};
  readonly credits: { readonly sale: Sale; readonly credit: Credit }[] = [];
  readonly firstSale = new Map<string, number>();
  readonly history: History;
  constructor(history: History) {
    this.history = history;
  }

  orderOf(key: string): Order {
    const order = this.orders.get(key) ?? { sales: [], refunds: [], decisions: [] };
    this.orders.set(key, order);
    return order;
  }
  contractsOf(client: number, type: string, at: number, known: number): readonly ContractSaved[] {
    const kind = type === "ext_purchase" ? "purchase" : type;
    return this.history.contracts.filter(
      (one) =>
        one.client === client &&
        one.event_type === kind &&
        one.recordedAt <= known &&
        one.from <= at &&
        at < (one.to ?? Infinity),
    );
  }

  take(sent: Sent): void {
    const isNamed = sent.t === "custom" || !types.split(" ").includes(sent.t);
    const name = sent.t === "custom" ? (sent.name ?? "custom") : sent.t;
    const type = isNamed && types.split(" ").includes(name) ? name : isNamed ? `custom ${name}` : sent.t;
    const at = Math.min(sent.ts, sent.receivedAt);
    const contracted = type.replace("custom ", "");
    const earns = ["purchase", "ext_purchase", "lead_submit", "install"].includes(type);
    if (!earns && type !== "refund" && this.contractsOf(sent.client, contracted, at, sent.receivedAt).length === 0)
      return;
    const given = sent.order?.trim().normalize("NFC");
    const isWeak = given !== undefined && weakOrders.includes(given.toLowerCase());
    const order = isWeak ? undefined : given;
    const id = `${sent.client}/${sent.id}`;
    const content = `${type} ${order} ${sent.amount} ${sent.currency ?? ""}`;
    const before = this.seen.get(id);
    if (before !== undefined) {
      if (before.content !== content) this.refused[id] = "id_conflict";
      return;
    }
    const about = sent.about === undefined ? undefined : this.seen.get(`${sent.client}/${sent.about}`)?.order;
    const lead = sent.leadId ?? sent.email;
    const own =
      type === "install"
        ? `did ${sent.did}`
        : type === "lead_submit" && lead !== undefined
          ? `lead ${lead}`
          : `event ${sent.id}`;
    const isOrdered = type !== "install" && type !== "lead_submit" && order !== undefined;
    const meets = about ?? this.orderOf(`${sent.client} ${isOrdered ? `order ${order}` : own}`);
    this.seen.set(id, { content, order: meets });
    if (type === "refund") {
      if (sent.refundId === undefined || !meets.refunds.some(({ refundId }) => refundId === sent.refundId))
        meets.refunds.push(sent);
    } else this.sell(meets, sent, contracted, at, isOrdered, isWeak);
    this.book(meets, null);
  }

  sell(order: Order, sent: Sent, type: string, at: number, isOrdered: boolean, isWeak: boolean): void {
    const claimed = isWeak || sent.verdict === "reject" ? null : clickOf(sent, at);
    const known = order.sales.find(({ product }) => !isOrdered || product === sent.product);
    if (known === undefined) {
      const review =
        sent.verdict === "review" ||
        (claimed !== null && order.sales.some((one) => claimsOf(one).some((p) => p !== claimed)));
      const sale: Sale = {
        ...{ first: sent, type, at, product: sent.product, copies: [sent] },
        ...{ holder: claimed, review, byPerson: false, refunded: 0n, isBack: false, credit: null },
      };
      order.sales.push(sale);
      for (const decision of order.decisions) decide(sale, decision);
      return;
    }
    if (sent.receivedAt > known.first.receivedAt + MERGES) return;
    known.copies.push(sent);
    if (known.byPerson) return;
    if (known.holder === null && claimed !== null)
      known.review = [known.first, sent].some(({ verdict }) => verdict === "review");
    known.holder ??= claimed;
    const others = order.sales
      .filter((one) => one !== known && order.sales.indexOf(one) < order.sales.indexOf(known))
      .flatMap(claimsOf);
    const verdicts = known.copies.map(({ verdict }) => verdict === "reject");
    const isDisputed = [...claimsOf(known), ...(known.holder === claimed ? others : [])].some(
      (partner) => partner !== known.holder,
    );
    if (isDisputed || (verdicts.includes(true) && verdicts.includes(false))) known.review = true;
  }

  judge(decision: Decided): void {
    const seen = decision.about === undefined ? undefined : this.seen.get(`${decision.client}/${decision.about}`);
    const order = seen?.order ?? this.orderOf(`${decision.client} order ${decision.order}`);
    if (decision.about === undefined && decision.kind !== "release") order.decisions.push(decision);
    for (const sale of order.sales) decide(sale, decision);
    this.book(order, decision);
  }

  /** Brings the books of an order to what its claims say now: what was credited otherwise goes back, then the new. */
  book(order: Order, decision: Decided | null): void {
    spread(order);
    for (const sale of order.sales) {
      const { value, currency } = moneyOf(sale);
      const was = sale.credit;
      const isSame =
        was === null
          ? sale.holder === null
          : was.partner === sale.holder &&
            was.value === value &&
            was.currency === currency &&
            was.isHeld === sale.review &&
            was.refunded <= sale.refunded;
      const isReleased = was?.isHeld && !sale.review && was.partner === sale.holder;
      if (isReleased) sale.credit = { ...was, isHeld: false };
      else if (!isSame) {
        sale.credit = null;
        if (sale.holder !== null)
          sale.credit = this.credit(sale, sale.holder, value, currency, decision?.receivedAt ?? sale.first.receivedAt);
      }
      if (sale.credit !== null) Object.assign(sale.credit, { refunded: sale.refunded, isBack: sale.isBack });
    }
  }

  credit(sale: Sale, partner: number, value: bigint, currency: string, known: number): Credit {
    const { first, at, type } = sale;
    const terms = this.contractsOf(first.client, type, at, known)
      .filter((one) => one.partner === partner && (one.segment === null || one.segment === first.segment))
      .sort((a, b) => Number(a.segment === null) - Number(b.segment === null) || b.from - a.from)[0];
    const credit = { partner, value, currency, isHeld: sale.review, contract: terms, refunded: 0n, isBack: false };
    if (terms === undefined || terms.type === "tiered") return { ...credit, earned: 0n };
    const own = this.history.clients.find(({ id }) => id === first.client)!.currency;
    const holdsAmounts = [terms.amount, terms.min, terms.max, terms.cap].some((one) => one !== undefined);
    if (holdsAmounts && currency !== own) return { ...credit, earned: 0n };
    let earned = (terms.amount ?? 0n) + halfEven(value * (terms.rate_ppm ?? 0n), MILLION);
    if (value > 0n && terms.min !== undefined && earned < terms.min) earned = terms.min;
    if (terms.max !== undefined) earned = least(earned, terms.max);
    if (terms.type === "recurring" && !this.isWithin(terms, sale, partner, value)) earned = 0n;
    if (terms.cap !== undefined) {
      const room = terms.cap.amount - sum(this.together(sale, terms, partner, terms.cap.period).map(owed));
      earned = least(earned, room < 0n ? 0n : room);
    }
    return { ...credit, earned };
  }

  /** The months of a customer begin with the first sale that is worth something; a weak device is no customer. */
  isWithin(terms: ContractSaved, { first, at }: Sale, partner: number, value: bigint): boolean {
    if (value === 0n) return false;
    const isNobody = first.person === undefined && weakDevices.includes(first.did.trim().toLowerCase());
    const customer = `${first.client} ${partner} ${first.person ?? (isNobody ? first.id : first.did)}`;
    const start = Math.min(at, this.firstSale.get(customer) ?? at);
    this.firstSale.set(customer, start);
    if (terms.months === undefined) return true;
    const [year, month, day] = [
      local(start).getUTCFullYear(),
      local(start).getUTCMonth() + terms.months,
      local(start).getUTCDate(),
    ];
    const last = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
    return at < Date.UTC(year, month, Math.min(day, last), 6);
  }

  /** What counts together: one partner, client, segment of the contract, type, and period of the sales. */
  together(sale: Sale, terms: ContractSaved, partner: number, period: "day" | "month" | "lifetime"): readonly Credit[] {
    return [...this.orders.values()]
      .flatMap(({ sales }) => sales)
      .filter((one) => one.first.client === sale.first.client && periodOf[period](one.at) === periodOf[period](sale.at))
      .flatMap(({ credit }) => credit ?? [])
      .filter(
        (one) =>
          one.partner === partner &&
          one.contract?.event_type === terms.event_type &&
          one.contract.segment === terms.segment,
      );
  }
}

/** The partner of a click that was there before the event was, and whose window is not over. */
const clickOf = ({ click, receivedAt }: Sent, at: number): number | null => {
  if (click === undefined || click.isForged || click.at > receivedAt) return null;
  return Math.max(at, click.at) - click.at <= 30 * 24 * HOUR ? click.partner : null;
};
const claimsOf = ({ copies }: Sale): readonly number[] =>
  copies.flatMap((one) => (one.verdict === "reject" ? [] : (clickOf(one, Math.min(one.ts, one.receivedAt)) ?? [])));
/** A server's money before the pixel's; a currency that is named before the default. */
const moneyOf = ({ copies }: Sale): { readonly value: bigint; readonly currency: string } => {
  const from =
    copies.find((one) => !one.isPixel && one.amount !== undefined) ?? copies.find(({ amount }) => amount !== undefined);
  const named = copies.find(({ currency }) => currency !== undefined);
  return { value: minor(from?.amount ?? "0"), currency: from?.currency ?? named?.currency ?? "MXN" };
};
const owed = ({ earned, refunded, value, isBack }: Credit): bigint =>
  isBack ? 0n : value === 0n ? earned : earned - halfEven(earned * refunded, value);

/** A person's word stands against every later copy. Assigning takes from no one, releasing is for what is held. */
const decide = (sale: Sale, { kind, partner, product }: Decided): void => {
  if (product !== undefined && product !== sale.product) return;
  if (kind === "assign" && sale.holder !== null && sale.holder !== partner) return;
  if (kind === "release" && (!sale.review || sale.holder === null)) return;
  const holder = kind === "release" ? sale.holder : kind === "assign" || kind === "reattribute" ? partner! : null;
  if (kind === "release" || holder !== sale.holder) sale.review = false;
  Object.assign(sale, { holder, byPerson: true });
};

/** Refunds of a line, then those of the whole order over what is left; after 48 hours as they come, and for good. */
const spread = ({ sales, refunds }: Order): void => {
  if (sales.length === 0) return;
  const closes = sales[0]!.first.receivedAt + MERGES;
  const left = (sale: Sale): bigint => moneyOf(sale).value - sale.refunded;
  const isIn = (refund: Sent, sale: Sale) =>
    refund.amount === undefined || [undefined, moneyOf(sale).currency].includes(refund.currency);
  const goBack = (sale: Sale, part: bigint, { amount }: Sent): void => {
    sale.refunded += part;
    sale.isBack = left(sale) === 0n && (sale.isBack || amount === undefined || minor(amount) > 0n);
  };
  const take = (sale: Sale, refund: Sent): void => {
    if (isIn(refund, sale))
      goBack(sale, refund.amount === undefined ? left(sale) : least(minor(refund.amount), left(sale)), refund);
  };
  const share = (all: readonly Sent[], over: readonly Sale[]): void => {
    const some = over.filter((sale) => all.some((one) => isIn(one, sale)));
    if (all.some(({ amount }) => amount === undefined)) for (const sale of over) goBack(sale, left(sale), all[0]!);
    const room = sum(some.map(left));
    const asked = sum(
      all.filter((one) => some.some((sale) => isIn(one, sale))).map(({ amount }) => minor(amount ?? "0")),
    );
    if (asked > 0n && asked >= room) for (const sale of some) goBack(sale, left(sale), all[0]!);
    if (asked === 0n || asked >= room) return;
    const parts = some.map((sale) => ({ sale, part: (asked * left(sale)) / room, rest: (asked * left(sale)) % room }));
    const byRest = parts.toSorted((a, b) =>
      a.rest === b.rest ? (a.sale.product! < b.sale.product! ? -1 : 1) : a.rest > b.rest ? -1 : 1,
    );
    const missing = asked - sum(parts.map(({ part }) => part));
    for (const [n, { sale, part }] of byRest.entries()) goBack(sale, part + (BigInt(n) < missing ? 1n : 0n), all[0]!);
  };
  for (const sale of sales) Object.assign(sale, { refunded: 0n, isBack: false });
  const isOfLine = ({ product, about }: Sent): boolean => product !== undefined || about !== undefined;
  const finds = (refund: Sent, sale: Sale): boolean =>
    refund.about === undefined ? refund.product === sale.product : sale.copies.some(({ id }) => id === refund.about);
  const early = refunds.filter(({ receivedAt }) => receivedAt <= closes);
  for (const refund of early.filter(isOfLine)) for (const sale of sales) if (finds(refund, sale)) take(sale, refund);
  share(
    early.filter((one) => !isOfLine(one)),
    sales.filter(({ first }) => first.receivedAt <= closes),
  );
  for (const refund of refunds.slice(early.length))
    if (isOfLine(refund)) for (const sale of sales.filter((one) => finds(refund, one))) take(sale, refund);
    else
      share(
        [refund],
        sales.filter(({ first }) => first.receivedAt <= refund.receivedAt),
      );
};

export const answersTo = (history: History): Answers => {
  const books = new Books(history);
  for (const one of history.happenings)
    if (one.is === "event") books.take(one);
    else books.judge(one);
  const lines: Record<string, Line> = {};
  const money: Record<string, bigint> = {};
  for (const sale of [...books.orders.values()].flatMap(({ sales }) => sales)) {
    const { credit, first, at } = sale;
    const name = `${first.client}/${first.id}`;
    const account = credit === null ? null : credit.isHeld ? "held" : "payable";
    const left = credit === null ? 0n : credit.value - credit.refunded;
    const isBack = credit?.isBack ?? false;
    lines[name] =
      isBack || credit === null
        ? { status: isBack ? "reversed" : "open", partner: null, account: null, left: 0n }
        : { status: "credited", partner: credit.partner, account, left };
    if (credit !== null && owed(credit) !== 0n)
      money[`${name} ${credit.partner} ${account} ${credit.currency} ${monthOf(at)}`] = owed(credit);
  }
  return { lines, money, refused: books.refused };
};
