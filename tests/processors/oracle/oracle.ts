// An accountant's answer to a history, from the written rules alone: what became of each line, and
// who is owed what for it. Claims are added up again from the beginning of their order at every
// step; nothing is shared with the code it checks.
import { Accounts, type Credit, HOUR, least, monthOf, owed, sum } from "./accounts.ts";
import type { Answers, Closed, Decided, History, Line, PatternSaved, Sent } from "./history.ts";

const MERGES = 48 * HOUR;
const WINDOW = { install: 7 * 24 * HOUR, others: 30 * 24 * HOUR };
const earning = ["purchase", "ext_purchase", "lead_submit", "install"];
/** Names that a custom event cannot take: it is that type then, whatever it earns. */
const others = ["page_view", "view_product", "add_to_cart", "begin_checkout", "form_start", "form_submit", "click"];
const weakOrders = ["null", "undefined", "none", "0", "n/a", "test"];
const minor = (amount: string | undefined): bigint => BigInt(Math.round(Number(amount ?? "0") * 100));

/** A copy of a sale, and the partner whom it would be credited to. */
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
  refunded: bigint;
  isBack: boolean;
  /**
   * When the claim was received by which it is priced: the one that gave it to its partner.
   */
  known: number;
  credit: Credit | null;
}
type Refund = Sent & { readonly line: Sale | undefined };
interface Order {
  readonly sales: Sale[];
  readonly refunds: Refund[];
  readonly decisions: Decided[];
}
const timeOf = ({ ts, receivedAt }: Sent): number => Math.min(ts, receivedAt);
const typeOf = ({ t, name }: Sent): string => (t === "custom" ? name! : t);
const orderIdOf = ({ order }: Sent): string | undefined => order?.trim().normalize("NFC");
const isWeak = (sent: Sent): boolean => weakOrders.includes(orderIdOf(sent)?.toLowerCase() ?? "");

/**
 * Who is credited: the partner of a click that was there before the event was, and whose window is
 * not over by the later of the two; else of the foremost pattern that names one.
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

/** A server's money before the pixel's; a currency that is named before the default. */
const moneyOf = (copies: readonly Sent[]): { readonly value: bigint; readonly currency: string } => {
  const withMoney = copies.filter(({ amount }) => amount !== undefined);
  const from = withMoney.find(({ isPixel }) => !isPixel) ?? withMoney[0];
  const named = from?.currency ?? copies.find(({ currency }) => currency !== undefined)?.currency;
  return { value: minor(from?.amount), currency: named ?? "MXN" };
};

class Books {
  readonly history: History;
  readonly accounts: Accounts;
  readonly orders = new Map<string, Order>();
  readonly seen = new Map<string, { readonly content: string; readonly order: Order; line: Sale | undefined }>();
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
    const about = this.seen.get(`${sent.client}/${sent.about}`);
    const order = about?.order ?? this.orderOf(`${sent.client} ${hasOrder ? `order ${orderIdOf(sent)}` : own}`);
    const now = { content, order, line: about?.line };
    this.seen.set(id, now);
    const isRepeated = order.refunds.some(({ refundId }) => refundId !== undefined && refundId === sent.refundId);
    if (type !== "refund") now.line = sell(order, { ...sent, claims: claimOf(sent, this.history) }, type, hasOrder);
    else if (!isRepeated) order.refunds.push({ ...sent, line: about?.line });
    this.book(order, sent.receivedAt);
  }

  judge(decision: Decided): void {
    const about = this.seen.get(`${decision.client}/${decision.about}`);
    const order = about?.order ?? this.orderOf(`${decision.client} order ${decision.order}`);
    if (about === undefined && decision.kind !== "release") order.decisions.push(decision);
    const decided = about === undefined ? order.sales : order.sales.filter((one) => one === about.line);
    for (const sale of decided) decide(sale, decision);
    this.book(order, decision.receivedAt);
  }

  /**
   * Brings the books of an order to what its claims say now: what was credited otherwise goes back,
   * then the new.
   */
  book(order: Order, receivedAt: number): void {
    spread(order);
    for (const sale of order.sales) {
      const { value, currency } = moneyOf(sale.copies);
      const { credit: was, holder: partner, isHeld, refunded, isBack, first, type, at } = sale;
      const isReleased = was?.isHeld === true && !isHeld && sale.byPerson;
      const isSame = was?.partner === partner && was?.value === value && was.currency === currency;
      if (!isSame || !(isReleased || was.isHeld === isHeld) || was.refunded > refunded) {
        this.accounts.close(was);
        if (was?.partner !== partner) sale.known = receivedAt;
        const worth = { first, type, at, partner: partner!, value, currency };
        sale.credit = partner === null ? null : this.accounts.open(worth, sale.known);
      }
      if (sale.credit !== null) Object.assign(sale.credit, { isHeld, refunded, isBack });
    }
  }
}

/** A line of its own, or one more copy of a line. */
const sell = (order: Order, sent: Copy, type: string, hasOrder: boolean): Sale | undefined => {
  const { product, receivedAt, verdict } = sent;
  const { sales } = order;
  const [holder, isHeld] = [sent.claims, verdict === "review"];
  const total = hasOrder ? sales.find((one) => one.product === undefined) : undefined;
  const money = moneyOf([sent]);
  const isTotal = total !== undefined && product !== undefined && moneyOf(total.copies).value === money.value;
  const isSoon = total !== undefined && isMerged(total, receivedAt);
  if (isTotal && isSoon && sales.length === 1) total.product = product;
  const isOfOrder = hasOrder && product === undefined;
  let line = hasOrder
    ? sales.find((one) => one.product === product)
    : type === "lead_submit"
      ? leadIn(sales, sent)
      : sales[0];
  if (isOfOrder && line === undefined && sales.length > 1) return undefined;
  if (isOfOrder) line ??= sales[0];
  if (line === undefined) {
    line = {
      ...{ first: sent, type, at: timeOf(sent), product, leadId: sent.leadId, copies: [sent] },
      holder,
      isHeld,
      ...untouched,
    };
    sales.push(line);
    if (total !== undefined) line.isHeld = true;
    if (total !== undefined && isSoon && !total.byPerson) total.isHeld = true;
    if (holder !== null) review(line, sales);
    for (const decision of order.decisions) decide(line, decision);
  } else if (isMerged(line, receivedAt)) {
    line.copies.push(sent);
    line.leadId ??= sent.leadId;
    if (line.byPerson) return line;
    const isFirst = line.holder === null && holder !== null;
    if (isFirst) Object.assign(line, { holder, isHeld: line.isHeld || isHeld });
    if (line.holder !== null) review(line, isFirst ? sales : [line]);
  }
  return line;
};
/** One lead id is one lead for ever; where one of them has none, leads within 48 hours are one. */
const leadIn = (sales: readonly Sale[], sent: Sent): Sale | undefined => {
  const away = ({ at }: Sale): number => Math.abs(at - timeOf(sent));
  const near = sales.filter(
    (one) => (one.leadId ?? sent.leadId) === (sent.leadId ?? one.leadId) && away(one) <= MERGES,
  );
  const same = sales.find(({ leadId }) => leadId !== undefined && leadId === sent.leadId);
  return same ?? near.sort((a, b) => away(a) - away(b))[0];
};
const untouched = { byPerson: false, refunded: 0n, isBack: false, known: 0, credit: null };

/**
 * Held: copies that disagree about fraud, and what another partner has claimed of this line or,
 * before it, of the order.
 */
const review = (sale: Sale, among: readonly Sale[]): void => {
  const isRejected = sale.copies.map(({ verdict }) => verdict === "reject");
  const isDisputed = among.flatMap(claimsOf).some((partner) => partner !== sale.holder);
  if (isDisputed || new Set(isRejected).size > 1) sale.isHeld = true;
};

/**
 * A person's word stands against every later copy. Assigning takes from no one, releasing is for
 * what is held.
 */
const decide = (sale: Sale, { kind, partner, product, band }: Decided): void => {
  if (kind === "flag") {
    flag(sale, band!);
    return;
  }
  if (product !== undefined && product !== sale.product) return;
  if (kind === "assign" && sale.holder !== null && sale.holder !== partner) return;
  if (kind === "release" && !sale.isHeld) return;
  const holder = kind === "release" ? sale.holder : kind === "assign" || kind === "reattribute" ? partner! : null;
  if (kind === "release" || holder !== sale.holder) sale.isHeld = false;
  Object.assign(sale, { holder, byPerson: sale.byPerson || kind !== "release" || holder !== null });
};

/** A nightly pass moves nothing that a person has decided; what it rejects stays rejected. */
const flag = (sale: Sale, band: Sent["verdict"]): void => {
  if (sale.byPerson) return;
  const isRejected = band === "reject" || sale.first.verdict === "reject";
  if (isRejected) Object.assign(sale, { holder: null, byPerson: true });
  else if (band === "review") sale.isHeld = true;
};

const leftOf = (sale: Sale): bigint => moneyOf(sale.copies).value - sale.refunded;
const goBack = (sale: Sale, part: bigint): void => {
  sale.refunded += part;
  sale.isBack = leftOf(sale) === 0n;
};
/** An amount takes nothing in another currency than its own, else that of the first line. */
const fits = ({ amount, currency }: Sent, sale: Sale, among: readonly Sale[]): boolean =>
  amount === undefined || (currency ?? (among[0] && currencyIn(among[0]))) === currencyIn(sale);

/**
 * Refunds of a line, then those of the whole order over what is left; after 48 hours as they come,
 * and for good.
 */
const spread = ({ sales, refunds }: Order): void => {
  for (const sale of sales) Object.assign(sale, { refunded: 0n, isBack: false });
  const closes = (sales[0]?.first.receivedAt ?? 0) + MERGES;
  const isOfLine = ({ product, about }: Refund): boolean => product !== undefined || about !== undefined;
  const early = refunds.filter(({ receivedAt }) => receivedAt <= closes);
  const late = refunds.filter(({ receivedAt }) => receivedAt > closes);
  const until = (end: number): readonly Sale[] => sales.filter(({ first }) => first.receivedAt <= end);
  for (const refund of early.filter(isOfLine)) ofLine(refund, sales);
  ofOrder(
    early.filter((one) => !isOfLine(one)),
    until(closes),
  );
  for (const refund of late)
    if (isOfLine(refund)) ofLine(refund, sales);
    else ofOrder([refund], until(refund.receivedAt));
};
const ofLine = (refund: Refund, sales: readonly Sale[]): void => {
  const { about, product, amount, line } = refund;
  const named = sales.filter((sale) => (about === undefined ? product === sale.product : line === sale));
  for (const sale of named)
    if (fits(refund, sale, named))
      goBack(sale, amount === undefined ? leftOf(sale) : least(minor(amount), leftOf(sale)));
};
const ofOrder = (refunds: readonly Sent[], all: readonly Sale[]): void => {
  if (refunds.some(({ amount }) => amount === undefined)) for (const sale of all) goBack(sale, leftOf(sale));
  for (const currency of new Set(all.map(currencyIn))) {
    const sales = all.filter((sale) => currencyIn(sale) === currency);
    const asked = sum(refunds.filter((one) => fits(one, sales[0]!, all)).map(({ amount }) => minor(amount)));
    const room = sum(sales.map(leftOf));
    if (asked === 0n || room === 0n) continue;
    const taken = least(asked, room);
    const shares = sales.map((sale) => ({
      sale,
      part: (taken * leftOf(sale)) / room,
      rest: (taken * leftOf(sale)) % room,
    }));
    const missing = taken - sum(shares.map(({ part }) => part));
    const byRest = shares.sort(
      (a, b) => Number(b.rest - a.rest) || ((a.sale.product ?? "") < (b.sale.product ?? "") ? -1 : 1),
    );
    for (const [n, { sale, part }] of byRest.entries()) goBack(sale, part + (BigInt(n) < missing ? 1n : 0n));
  }
};

/** What is owed by line (or tiers), partner, account and currency, in the month of its sale. */
const owedIn = ({ orders, accounts }: Books): Readonly<Record<string, bigint>> => {
  const money: Record<string, bigint> = { ...accounts.tiers() };
  for (const { credit, first, at } of [...orders.values()].flatMap(({ sales }) => sales))
    if (credit !== null)
      money[`${first.client}/${first.id} ${credit.partner} ${accountOf(credit)} ${credit.currency} ${monthOf(at)}`] =
        owed(credit);
  return money;
};
const accountOf = ({ isHeld }: Credit): "held" | "payable" => (isHeld ? "held" : "payable");

/** A closed month takes nothing any more: it is booked in the first one behind that is open. */
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
    one.is === "event" ? books.take(one) : books.judge(one);
    // Without closed months only what is owed at the end matters.
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

/** What a client's report says, by client, month and currency: amounts in minor units. */
export interface Reported {
  orders: number;
  revenue: bigint;
  refunded: bigint;
}
/** Each order in each of its currencies belongs to the month of its first line. */
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
