// An accountant's answer to a history, computed from the written rules only: the state of each
// line, and the money owed for it. Claims are added up from the beginning of their order at every
// step, and no code is shared with the product.
import { Accounts, type Credit, HOUR, halfEven, least, monthOf, most, owed, sum } from "./accounts.ts";
import type { Answers, Backfilled, Closed, Decided, Happening, History, Line, PatternSaved, Sent } from "./history.ts";

const MERGES = 48 * HOUR;
const WINDOW = { install: 7 * 24 * HOUR, others: 30 * 24 * HOUR };
const earning = ["purchase", "ext_purchase", "lead_submit", "install"];
/** Names that a custom event cannot have: it then is of that type, whatever it earns. */
const others = ["page_view", "view_product", "add_to_cart", "begin_checkout", "form_start", "form_submit", "click"];
const weakOrders = ["null", "undefined", "none", "0", "n/a", "test"];
const digitsOf = (currency: string): number => ({ JPY: 0, KWD: 3 })[currency] ?? 2;
/**
 * An amount without a currency is read in cents, and rounded to the digits of its sale's currency.
 */
const minorIn = (currency: string, { amount = "0", currency: named = "MXN" }: Sent): bigint => {
  const [whole, part = ""] = amount.split(".");
  const read = BigInt(whole + part.padEnd(digitsOf(named), "0"));
  return halfEven(read * 10n ** BigInt(digitsOf(currency)), 10n ** BigInt(digitsOf(named)));
};

/** A copy of a sale, with the partner that it claims for. */
type Copy = Sent & { readonly claims: number | null };
interface Sale {
  readonly first: Sent;
  readonly type: string;
  readonly at: number;
  product: string | undefined;
  leadId: string | undefined;
  readonly copies: Copy[];
  holder: number | null;
  isHeld: boolean;
  byPerson: boolean;
  /** Credited by a job that moves no money, so it earns nothing. */
  isQuiet: boolean;
  /** A job credits it again, though nothing else about it has changed. */
  isAgain: boolean;
  /** The number of copies when a person released the sale. */
  released: number;
  refunded: bigint;
  isBack: boolean;
  /**
   * When the claim arrived that gave the sale to its partner: it is priced by the contracts known
   * then.
   */
  known: number;
  credit: Credit | null;
}
interface Order {
  readonly sales: Sale[];
  /** Ordered by receipt. */
  refunds: Sent[];
  readonly decisions: Decided[];
}
const timeOf = ({ ts, receivedAt }: Sent): number => Math.min(ts, receivedAt);
const typeOf = ({ t, name }: Sent): string => (t === "custom" ? name! : t);
const orderIdOf = ({ order }: Sent): string | undefined => order?.trim().normalize("NFC");
const isWeak = (sent: Sent): boolean => weakOrders.includes(orderIdOf(sent)?.toLowerCase() ?? "");

/**
 * The credited partner: that of a click before the receipt, whose window covers the time of the
 * event; else that of the foremost matching pattern with a partner.
 */
const claimOf = (sent: Sent, { patterns }: History): number | null => {
  const { click, receivedAt, verdict } = sent;
  if (verdict === "reject" || isWeak(sent)) return null;
  const window = typeOf(sent) === "install" ? WINDOW.install : WINDOW.others;
  const isGood = click !== undefined && !click.isForged && click.at <= receivedAt && timeOf(sent) - click.at <= window;
  if (isGood) return click.partner;
  const matching = patterns.filter((one) => one.client === sent.client && isMatched(one, sent));
  const kinds = ["coupon", "utm_campaign", "utm_source", "url_prefix"];
  const inOrder = matching.sort(
    (a, b) =>
      kinds.indexOf(a.kind) - kinds.indexOf(b.kind) ||
      b.value.length - a.value.length ||
      a.campaign.localeCompare(b.campaign),
  );
  const [partner] = inOrder.flatMap((one) => one.partner ?? (one.campaign === "one" ? 21 : []));
  return partner ?? null;
};
const isMatched = ({ kind, value }: PatternSaved, { coupon, url }: Sent): boolean => {
  if (kind === "coupon") return coupon === value;
  return kind === "url_prefix" ? url?.startsWith(value) === true : url?.includes(`${kind}=${value}&`) === true;
};
const isMerged = ({ first }: Sale, receivedAt: number): boolean => receivedAt <= first.receivedAt + MERGES;
const claimsOf = ({ copies }: Sale): readonly number[] => copies.flatMap(({ claims }) => claims ?? []);

/** A server's amount goes before the pixel's, and a named currency before the default. */
const amountIn = (copies: readonly Sent[]): Sent | undefined => {
  const withMoney = copies.filter(({ amount }) => amount !== undefined);
  return withMoney.find(({ isPixel }) => !isPixel) ?? withMoney[0];
};
const moneyOf = (copies: readonly Sent[]): { readonly value: bigint; readonly currency: string } => {
  const from = amountIn(copies);
  const currency = from?.currency ?? copies.find((one) => one.currency !== undefined)?.currency ?? "MXN";
  return { value: from === undefined ? 0n : minorIn(currency, from), currency };
};
/** Whether both have the same value in the same currency, as far as they name one. */
const isWorthTheSame = (copies: readonly Sent[], sent: Sent): boolean => {
  const { currency } = moneyOf([...copies, sent]);
  const [ours, theirs] = [copies, [sent]].map((some) => {
    const named = some.some((one) => one.currency !== undefined);
    const { value, currency: own } = moneyOf(some);
    return own === currency ? value : named ? null : minorIn(currency, amountIn(some)!);
  });
  return ours !== null && ours === theirs;
};

class Books {
  readonly history: History;
  readonly accounts: Accounts;
  readonly orders = new Map<string, Order>();
  readonly seen = new Map<string, { readonly content: string; readonly order: Order; lines: readonly Sale[] }>();
  readonly refused: Record<string, string> = {};
  constructor(history: History) {
    this.history = history;
    this.accounts = new Accounts(history);
  }

  orderOf(key: string): Order {
    const order = this.orders.get(key) ?? { sales: [], refunds: [], decisions: [] };
    this.orders.set(key, order);
    return order;
  }

  happen(one: Happening): void {
    if (one.is === "look-up") this.lookUp(one.receivedAt);
    else if (one.is === "event") this.take(one);
    else if (one.is === "backfill") this.backfill(one);
    else this.judge(one);
  }

  take(sent: Sent): void {
    const [type, at, id] = [typeOf(sent), timeOf(sent), `${sent.client}/${sent.id}`];
    const isCommissioned = () => this.accounts.contractsOf(sent.client, type, at, sent.receivedAt).length > 0;
    if (![...earning, "refund"].includes(type) && (others.includes(type) || !isCommissioned())) return;
    const content = `${type} ${orderIdOf(sent)} ${sent.amount} ${sent.currency}`;
    const before = this.seen.get(id);
    if (before !== undefined && before.content !== content) this.refused[id] = "id_conflict";
    if (before !== undefined) return;
    const hasOrder = sent.order !== undefined && !isWeak(sent) && type !== "install" && type !== "lead_submit";
    const lead = type === "lead_submit" ? (sent.email ?? sent.leadId) : undefined;
    const own = type === "install" ? `did ${sent.did}` : lead !== undefined ? `lead ${lead}` : `event ${sent.id}`;
    const by = sent.about === undefined ? own : `event ${sent.about}`;
    const order = this.orderOf(`${sent.client} ${hasOrder ? `order ${orderIdOf(sent)}` : by}`);
    const now = { content, order, lines: [] as readonly Sale[] };
    this.seen.set(id, now);
    if (type === "refund") this.giveBack(order, sent);
    else now.lines = sell(order, { ...sent, claims: claimOf(sent, this.history) }, type, hasOrder);
    this.book(order, sent.receivedAt);
  }

  /** The lines that a refund names: those of an event, those of a product, or all. */
  namedBy({ client, about, product }: Sent, { sales }: Order): readonly Sale[] {
    const lines = this.seen.get(`${client}/${about}`)?.lines;
    return sales.filter((sale) =>
      about !== undefined ? lines?.includes(sale) : product === undefined || product === sale.product,
    );
  }

  /** Whether another refund of the same line, or of the whole order, has the same refund id. */
  isCopy(refund: Sent, others: readonly Sent[], order: Order): boolean {
    const names = (one: Sent): readonly unknown[] => (isOfLine(one) ? this.namedBy(one, order) : [order]);
    const own = names(refund);
    return others.some(
      (one) =>
        one.refundId !== undefined && one.refundId === refund.refundId && names(one).some((it) => own.includes(it)),
    );
  }

  giveBack(order: Order, refund: Sent): void {
    if (this.isCopy(refund, order.refunds, order)) return;
    order.refunds = [...order.refunds, refund].sort((a, b) => a.receivedAt - b.receivedAt);
  }

  /** Moves a waiting refund to the line of the event that it names; its time of receipt stays. */
  lookUp(receivedAt: number): void {
    for (const [key, from] of this.orders)
      for (const refund of key.includes(" event ") ? from.refunds : []) {
        const to = this.seen.get(`${refund.client}/${refund.about}`);
        if (to === undefined || to.order === from || to.lines.length === 0) continue;
        from.refunds = from.refunds.filter((one) => one !== refund);
        this.giveBack(to.order, refund);
        this.book(to.order, receivedAt);
      }
  }

  judge(decision: Decided): void {
    const about = this.seen.get(`${decision.client}/${decision.about}`);
    const order = about?.order ?? this.orderOf(`${decision.client} order ${decision.order}`);
    if (about === undefined && decision.kind !== "release") order.decisions.push(decision);
    const decided = about?.lines ?? order.sales;
    for (const sale of decided) decide(sale, decision);
    this.book(order, decision.receivedAt);
  }

  /**
   * A job gives a line to a partner, whatever its copies claim, unless a person has decided about
   * it. One that moves no money leaves a line that earns as it is, and credits others for nothing.
   */
  backfill({ client, about, partner, isDisputed, recalculates, receivedAt }: Backfilled): void {
    const seen = this.seen.get(`${client}/${about}`);
    const sale = seen?.lines.find(({ first }) => first.id === about);
    if (seen === undefined || sale === undefined || sale.byPerson) return;
    const { credit } = sale;
    const isCredited = credit !== null && !credit.isBack;
    if (partner === undefined) {
      if (!isCredited) return;
      Object.assign(sale, { isQuiet: false, isAgain: true, known: receivedAt });
    } else {
      const isHeld = sale.isHeld || isDisputed || doCopiesDisagree(sale);
      const isMoved = sale.holder !== partner;
      const isChanged = isMoved || (sale.holder !== null && isHeld !== sale.isHeld);
      if (credit !== null && !sale.isQuiet && !recalculates && isChanged) return;
      if (isMoved) sale.isQuiet = !recalculates;
      if (isChanged) sale.known = receivedAt;
      const copies = sale.copies.map((copy, n) => ({ ...copy, claims: n === 0 ? partner : null }));
      sale.copies.splice(0, copies.length, ...copies);
      Object.assign(sale, { holder: partner, isHeld });
    }
    this.book(seen.order, receivedAt);
    sale.isAgain = false;
  }

  /**
   * Updates the books of an order to its present claims: changed credits are closed, then the new
   * ones are opened.
   */
  book(order: Order, receivedAt: number): void {
    spread(order, this);
    for (const sale of order.sales) {
      const { value, currency } = moneyOf(sale.copies);
      const { credit: was, holder: partner, isHeld, refunded, isBack, first, type, at } = sale;
      const isReleased = was?.isHeld === true && !isHeld && sale.byPerson;
      const isSame = !sale.isAgain && was?.partner === partner && was?.value === value && was.currency === currency;
      if (!isSame || !(isReleased || was.isHeld === isHeld) || was.refunded > refunded) {
        this.accounts.close(was);
        if (was?.partner !== partner) sale.known = receivedAt;
        const worth = { first, type, at, partner: partner!, value, currency, isQuiet: sale.isQuiet };
        sale.credit = partner === null ? null : this.accounts.open(worth, sale.known);
      }
      const { credit } = sale;
      if (credit === null) continue;
      const isAsBefore = credit.isHeld === isHeld && credit.refunded === refunded && credit.isBack === isBack;
      if (!isAsBefore) this.accounts.change(credit, { isHeld, refunded, isBack });
    }
  }
}

/** A new line, or another copy of a line, or of the whole order and each of its lines. */
const sell = (order: Order, sent: Copy, type: string, hasOrder: boolean): readonly Sale[] => {
  const { product, receivedAt } = sent;
  const { sales } = order;
  const total = hasOrder ? sales.find((one) => one.product === undefined) : undefined;
  const isSoon = total !== undefined && isMerged(total, receivedAt);
  const isTotal = isSoon && product !== undefined && isWorthTheSame(total.copies, sent);
  if (isTotal && sales.length === 1) total.product = product;
  const lead = type === "lead_submit" ? leadIn(sales, sent) : sales[0];
  const known = hasOrder ? sales.find((one) => one.product === product) : lead;
  const met = known !== undefined ? [known] : hasOrder && product === undefined ? [...sales] : [];
  const { amount: _, currency: __, ...withoutMoney } = sent;
  for (const line of met.filter((one) => isMerged(one, receivedAt)))
    merge(line, met.length > 1 ? withoutMoney : sent, sales);
  if (met.length > 0) return met;
  const line: Sale = {
    ...{ first: sent, type, at: timeOf(sent), product, leadId: sent.leadId, copies: [sent], holder: sent.claims },
    ...{ isHeld: sent.verdict === "review", byPerson: false, isQuiet: false, isAgain: false, released: 0 },
    ...{ refunded: 0n, isBack: false, known: 0, credit: null },
  };
  sales.push(line);
  if (total !== undefined) line.isHeld = true;
  if (isSoon && !total.byPerson) total.isHeld = true;
  if (line.holder !== null) review(line, sales);
  for (const decision of order.decisions) decide(line, decision);
  return [line];
};
const merge = (line: Sale, sent: Copy, sales: readonly Sale[]): void => {
  line.copies.push(sent);
  line.leadId ??= sent.leadId;
  if (line.byPerson) return;
  const isFirst = line.holder === null && sent.claims !== null;
  if (isFirst) line.holder = sent.claims;
  if (sent.verdict === "review") line.isHeld = true;
  if (line.holder !== null) review(line, isFirst ? sales : [line]);
};
/** A lead id is one lead for ever. If one of two leads has none, they are one within 48 hours. */
const leadIn = (sales: readonly Sale[], sent: Sent): Sale | undefined => {
  const away = ({ at }: Sale): number => Math.abs(at - timeOf(sent));
  const near = sales.filter(
    (one) => (one.leadId ?? sent.leadId) === (sent.leadId ?? one.leadId) && away(one) <= MERGES,
  );
  const same = sales.find(({ leadId }) => leadId !== undefined && leadId === sent.leadId);
  return same ?? near.sort((a, b) => away(a) - away(b))[0];
};
/**
 * Holds a sale if its copies disagree about fraud, or if another partner claims this line or, for a
 * new line, the order.
 */
const review = (sale: Sale, among: readonly Sale[]): void => {
  const isDisputed = among.flatMap(claimsOf).some((partner) => partner !== sale.holder);
  if (isDisputed || doCopiesDisagree(sale)) sale.isHeld = true;
};
const doCopiesDisagree = ({ first, copies, released }: Sale): boolean =>
  new Set([first, ...copies.slice(released)].map(({ verdict }) => verdict === "reject")).size > 1;

/**
 * A person's decision stands against every later copy. Assigning takes a sale from no partner, and
 * a release only affects a held one.
 */
const decide = (sale: Sale, { kind, partner, product, band }: Decided): void => {
  if (kind === "flag") {
    flag(sale, band!);
    return;
  }
  if (product !== undefined && product !== sale.product) return;
  if (kind === "assign" && sale.holder !== null && sale.holder !== partner) return;
  if (kind === "release") sale.released = sale.copies.length;
  if (kind === "release" && !sale.isHeld) return;
  const holder = kind === "release" ? sale.holder : kind === "assign" || kind === "reattribute" ? partner! : null;
  if (kind === "release" || holder !== sale.holder) sale.isHeld = false;
  if (holder !== sale.holder) sale.isQuiet = false;
  Object.assign(sale, { holder, byPerson: sale.byPerson || kind !== "release" || holder !== null });
};

/** The nightly pass changes nothing that a person decided; a rejected sale stays rejected. */
const flag = (sale: Sale, band: Sent["verdict"]): void => {
  if (sale.byPerson) return;
  const isRejected = band === "reject" || sale.first.verdict === "reject";
  if (isRejected) Object.assign(sale, { holder: null, byPerson: true, isQuiet: false });
  else if (band === "review") sale.isHeld = true;
};

const leftOf = (sale: Sale): bigint => moneyOf(sale.copies).value - sale.refunded;
const goBack = (sale: Sale, part: bigint): void => {
  sale.refunded += part;
  sale.isBack = leftOf(sale) === 0n;
};
/** An amount only counts in its own currency; without one, in that of the first line. */
const fits = ({ amount, currency }: Sent, own: string, among: readonly Sale[]): boolean =>
  amount === undefined || (currency ?? currencyIn(among[0]!)) === own;
const isOfLine = ({ product, about }: Sent): boolean => product !== undefined || about !== undefined;

/**
 * Spreads refunds of lines first, then refunds of the whole order over the rest. After 48 hours
 * each refund is spread when it comes, and for good.
 */
const spread = (order: Order, books: Books): void => {
  const { sales, refunds } = order;
  for (const sale of sales) Object.assign(sale, { refunded: 0n, isBack: false });
  const counting = refunds.filter((one, n) => !books.isCopy(one, refunds.slice(0, n), order));
  const closes = (sales[0]?.first.receivedAt ?? 0) + MERGES;
  const asked: Asked = new Map();
  const [early, late] = [true, false].map((is) => counting.filter(({ receivedAt }) => receivedAt <= closes === is));
  const until = (end: number): readonly Sale[] => sales.filter(({ first }) => first.receivedAt <= end);
  for (const one of early!.filter(isOfLine)) share([one], books.namedBy(one, order), asked);
  const ofOrder = early!.filter((one) => !isOfLine(one));
  share(ofOrder, until(closes), asked);
  for (const one of late!) share([one], isOfLine(one) ? books.namedBy(one, order) : until(one.receivedAt), asked);
};
/** By refund id and currency: the amounts asked of the whole order, and of its lines. */
type Asked = Map<string, { order: bigint; lines: bigint }>;
/**
 * Under one refund id the order's amount is the sum over its lines, so the larger of the two
 * counts.
 */
const further = (asked: Asked, refund: Sent, currency: string, amount: bigint): bigint => {
  if (refund.refundId === undefined) return amount;
  const one = asked.get(`${refund.refundId} ${currency}`) ?? { order: 0n, lines: 0n };
  asked.set(`${refund.refundId} ${currency}`, one);
  const before = most(one.order, one.lines);
  one[isOfLine(refund) ? "lines" : "order"] += amount;
  return most(one.order, one.lines) - before;
};
/**
 * Shares by largest remainder over the rest of each line; equal remainders go to the lower product
 * id.
 */
const share = (refunds: readonly Sent[], all: readonly Sale[], asked: Asked): void => {
  const inOrder = all.toSorted((a, b) => ((a.product ?? "") < (b.product ?? "") ? -1 : 1));
  const sums = new Map<string, bigint>();
  for (const currency of new Set(all.map(currencyIn)))
    for (const refund of refunds.filter((one) => fits(one, currency, all))) {
      const sales = inOrder.filter((sale) => currencyIn(sale) === currency);
      const isAll = refund.amount === undefined;
      // No amount can name a line without value, so naming the line is enough.
      const named = isAll ? sales : sales.filter((sale) => isOfLine(refund) && moneyOf(sale.copies).value === 0n);
      const amount = isAll ? sum(sales.map(leftOf)) : minorIn(currency, refund);
      const counted = further(asked, refund, currency, amount);
      for (const sale of named) goBack(sale, leftOf(sale));
      if (!isAll) sums.set(currency, counted + (sums.get(currency) ?? 0n));
    }
  for (const [currency, wanted] of sums) {
    const sales = inOrder.filter((sale) => currencyIn(sale) === currency && leftOf(sale) > 0n);
    const room = sum(sales.map(leftOf));
    const taken = least(wanted, room);
    const shares = sales.map((sale) => ({
      sale,
      part: (taken * leftOf(sale)) / room,
      rest: (taken * leftOf(sale)) % room,
    }));
    const missing = taken - sum(shares.map(({ part }) => part));
    const byRest = shares.toSorted((a, b) => Number(b.rest - a.rest));
    for (const [n, { sale, part }] of byRest.entries()) goBack(sale, part + (BigInt(n) < missing ? 1n : 0n));
  }
};

/** The money owed by line (or tiers), partner, account and currency, in the month of its sale. */
const owedIn = ({ orders, accounts }: Books): Readonly<Record<string, bigint>> => {
  const money: Record<string, bigint> = { ...accounts.tiers() };
  for (const { credit, first, at } of [...orders.values()].flatMap(({ sales }) => sales))
    if (credit !== null)
      money[`${first.client}/${first.id} ${credit.partner} ${accountOf(credit)} ${credit.currency} ${monthOf(at)}`] =
        owed(credit);
  return money;
};
const accountOf = ({ isHeld }: Credit): "held" | "payable" => (isHeld ? "held" : "payable");

/** A closed month takes no bookings: they go to the first open month after it. */
const openMonthOf = (name: string, { closed }: History, receivedAt: number): string => {
  const [, client, partner, , ends] = /^(\d+)\/\S+ (\d+) (.*) (\S+)$/.exec(name)!;
  let [year, month] = ends!.split("-").map(Number) as [number, number];
  const isClosed = (one: Closed): boolean =>
    `${one.client} ${one.partner} ${one.year}-${one.month}` === `${client} ${partner} ${year}-${month}` &&
    one.recordedAt <= receivedAt;
  while (closed.some(isClosed)) [year, month] = month === 12 ? [year + 1, 1] : [year, month + 1];
  return `${name.slice(0, -ends!.length)}${year}-${month}`;
};

const booksAfter = (history: History): Books & { readonly money: Readonly<Record<string, bigint>> } => {
  const books = new Books(history);
  const money: Record<string, bigint> = {};
  let before: Readonly<Record<string, bigint>> = {};
  for (const [n, one] of history.happenings.entries()) {
    books.happen(one);
    // Without closed months only the final state matters.
    if (history.closed.length === 0 && n < history.happenings.length - 1) continue;
    const now = owedIn(books);
    for (const name of new Set([...Object.keys(before), ...Object.keys(now)])) {
      const month = openMonthOf(name, history, one.receivedAt);
      money[month] = (money[month] ?? 0n) + (now[name] ?? 0n) - (before[name] ?? 0n);
    }
    before = now;
  }
  for (const name of Object.keys(money)) if (money[name] === 0n) delete money[name];
  return Object.assign(books, { money });
};

/** The report of a client by month and currency, in minor units. */
export interface Reported {
  orders: number;
  revenue: bigint;
  refunded: bigint;
}
/** Each order counts in each of its currencies for the month of its first line. */
export const reportsOf = (history: History): Readonly<Record<string, Reported>> => {
  const reports: Record<string, Reported> = {};
  for (const { sales } of booksAfter(history).orders.values())
    for (const currency of new Set(sales.map(currencyIn))) {
      const lines = sales.filter((one) => isGoods(one) && currencyIn(one) === currency).sort((a, b) => a.at - b.at);
      if (lines[0] === undefined) continue;
      const key = `${lines[0].first.client} ${monthOf(lines[0].at)} ${currency}`;
      const before = reports[key] ?? { orders: 0, revenue: 0n, refunded: 0n };
      reports[key] = {
        orders: before.orders + 1,
        revenue: before.revenue + sum(lines.map(({ copies }) => moneyOf(copies).value)),
        refunded: before.refunded + sum(lines.map(({ refunded }) => refunded)),
      };
    }
  return reports;
};
const isGoods = ({ type }: Sale): boolean => type === "purchase" || type === "ext_purchase";
const currencyIn = ({ copies }: Sale): string => moneyOf(copies).currency;

export const answersTo = (history: History): Answers => {
  const { orders, accounts, refused, money } = booksAfter(history);
  const lines: Record<string, Line> = {};
  for (const sale of [...orders.values()].flatMap(({ sales }) => sales)) {
    const { credit, first, at, type, copies, refunded } = sale;
    const { value: sold, currency } = moneyOf(copies);
    const none = { partner: null, account: null, left: 0n, sold, refunded, currency, payableFrom: null };
    const status = credit === null ? "open" : credit.isBack ? "reversed" : "credited";
    lines[`${first.client}/${first.id}`] =
      status !== "credited" || credit === null
        ? { status, ...none }
        : {
            ...{
              ...none,
              status,
              partner: credit.partner,
              account: accountOf(credit),
              left: credit.value - credit.refunded,
            },
            payableFrom: credit.earned === 0n ? null : at + accounts.holdOf(first.client, type),
          };
  }
  return { lines, money, refused };
};
