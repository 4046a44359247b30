// An accountant's answer to a history, computed from the written rules only: the state of each
// line, and the money owed for it. Claims are added up from the beginning of their order at every
// step, and no code is shared with the product.
import {
  Accounts,
  type Credit,
  HOUR,
  halfEven,
  isPlaceholder,
  least,
  monthOf,
  most,
  owed,
  spelt,
  sum,
} from "./accounts.ts";
import type { Answers, Backfilled, Decided, Happening, History, Line, PatternSaved, Sent, Undone } from "./history.ts";

const MERGES = 48 * HOUR;
const WINDOW = { install: 7 * 24 * HOUR, others: 30 * 24 * HOUR };
const earning = ["purchase", "ext_purchase", "lead_submit", "install"];
/** Names that a custom event cannot have: it then is of that type, whatever it earns. */
const others = ["page_view", "view_product", "add_to_cart", "begin_checkout", "form_start", "form_submit", "click"];
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
type Copy = Sent & {
  readonly claims: number | null;
  /** It names another product than the line, or none: it amends no amount. */
  readonly isOfOther?: boolean;
  /** It came when nothing was merged any more. */
  readonly isLate?: boolean;
  /** True for a total or lines of which the client's own systems sent a copy. */
  readonly isTold?: boolean;
  /** The segment that they named by it. */
  readonly ofOrder?: string | undefined;
};
/** The same, with the time of its money. */
type DatedCopy = Copy & { readonly at: number };
interface Sale {
  readonly first: Sent;
  readonly type: string;
  readonly at: number;
  product: string | undefined;
  leadId: string | undefined;
  readonly copies: Copy[];
  /** Copies of servers that came too late for anything but their amount. */
  readonly late: Copy[];
  /** Who spoke of its segment, as they came. */
  readonly spoken: Copy[];
  /** The events of all of them, also of those that came too late. */
  readonly events: string[];
  holder: number | null;
  isHeld: boolean;
  byPerson: boolean;
  /** Held because a total and the lines of its order are of another worth. */
  isDisputed: boolean;
  /** A person kept this total, or this line, against the other. */
  isKept: boolean;
  /** Partners that copies claimed for which are now of this line and others. */
  alsoClaimed: number[];
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
  /** Refunds that another source reported too, with that of the other source. */
  readonly held: Map<Sent, { readonly first: Sent; isOne: boolean }>;
  readonly decisions: Decided[];
}
const timeOf = ({ ts, receivedAt }: Sent): number => Math.min(ts, receivedAt);
const MINUTE = HOUR / 60;
/** Whether a month takes no bookings at this time: the latest word about it counts. */
const isClosedAt = ({ closed }: History, month: string, at: number): boolean => {
  const said = closed.filter(
    (one) => `${one.client} ${one.partner} ${one.year}-${one.month}` === month && one.recordedAt <= at,
  );
  const last = said.toSorted((a, b) => a.recordedAt - b.recordedAt).at(-1);
  return last !== undefined && last.isReopened !== true;
};
/**
 * The time of the money: not before the click that the sale carries. A page's clock counts for ten
 * minutes, a server's for the hours of its client, that of a file or a pull while the month of the
 * partner is open; else the receipt dates it.
 */
const datedOf = (sent: Copy, history: History): number => {
  const { click, isPixel, door, receivedAt, client } = sent;
  const isCarried = click !== undefined && !click.isForged && click.at <= receivedAt;
  const at = isCarried ? Math.max(timeOf(sent), click.at) : timeOf(sent);
  const isClosed = isClosedAt(history, `${client} ${sent.claims} ${monthOf(at)}`, receivedAt);
  const { lateHours } = history.clients.find(({ id }) => id === client)!;
  const counts = door !== undefined ? !isClosed : receivedAt - at <= (isPixel ? 10 * MINUTE : lateHours * HOUR);
  return counts ? at : receivedAt;
};
const typeOf = ({ t, name }: Sent): string => (t === "custom" ? name! : t);
/** An id that names nothing is none. */
const idOf = (id: string | undefined): string | undefined =>
  id === undefined || isPlaceholder(spelt(id)) ? undefined : spelt(id);
const orderIdOf = ({ order }: Sent): string | undefined => (order === undefined ? undefined : spelt(order));
const isWeak = (sent: Sent): boolean => isPlaceholder(orderIdOf(sent) ?? "");
/** An event with the ids that count. */
const read = (sent: Sent): Sent => {
  const { product: _, refundId: __, leadId: ___, ...rest } = sent;
  const [product, refundId, leadId] = [sent.product, sent.refundId, sent.leadId].map(idOf);
  return {
    ...rest,
    ...(product !== undefined && { product }),
    // A part of its order, which nothing names; a refund with one is of the whole order.
    ...(product === undefined && sent.product !== undefined && sent.t !== "refund" && { product: UNNAMED }),
    ...(refundId !== undefined && { refundId }),
    ...(leadId !== undefined && { leadId }),
  };
};
const UNNAMED = "-";
const isUnnamed = ({ product }: Sale): boolean => product === UNNAMED;
const isNaming = (product: string | undefined): boolean => product !== undefined && product !== UNNAMED;
/** Coupons are one whatever their case. */
const codeOf = (coupon: string): string => coupon.trim().toLowerCase();

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
      Number(b.value === sent.coupon) - Number(a.value === sent.coupon) ||
      b.value.length - a.value.length ||
      a.campaign.localeCompare(b.campaign),
  );
  const [partner] = inOrder.flatMap((one) => one.partner ?? (one.campaign === "one" ? 21 : []));
  return partner ?? null;
};
const isMatched = ({ kind, value }: PatternSaved, { coupon, url }: Sent): boolean => {
  if (kind === "coupon") return coupon !== undefined && codeOf(coupon) === codeOf(value);
  return kind === "url_prefix" ? url?.startsWith(value) === true : url?.includes(`${kind}=${value}&`) === true;
};
const isWithin = (one: Sale, receivedAt: number): boolean => Math.abs(one.first.receivedAt - receivedAt) <= MERGES;
const isMerged = ({ first }: Sale, receivedAt: number): boolean => receivedAt <= first.receivedAt + MERGES;
const claimsOf = ({ copies }: Sale): readonly number[] => copies.flatMap(({ claims }) => claims ?? []);
/** What earns nothing any more holds no other sale. A person leaves only the holder's claim. */
const earningClaimsOf = (sale: Sale): readonly number[] => {
  if (sale.isBack || moneyOf(sale).value === 0n) return [];
  if (sale.byPerson) return sale.holder === null ? [] : [sale.holder];
  return [...claimsOf(sale), ...sale.alsoClaimed];
};

/** A partner's file reports what it is paid for. */
const isOfPartner = ({ door }: Sent): boolean => door === "upload";
const isOfClient = (sent: Sent): boolean => !sent.isPixel && !isOfPartner(sent);
/**
 * A server's amount goes before the pixel's, one of the client's own systems before a partner's and
 * a later one of them before an earlier one, and a named currency before the default: an amount
 * that names none is in the one known by then.
 */
const amountIn = (copies: readonly Copy[]) => {
  let [from, named] = [undefined as Copy | undefined, undefined as string | undefined];
  for (const copy of copies) {
    const isNewer = from === undefined || isOfPartner(from) || timeOf(copy) >= timeOf(from);
    const isMore =
      from === undefined || (!copy.isPixel && (from.isPixel || (!isOfPartner(copy) && !copy.isOfOther && isNewer)));
    if (copy.amount !== undefined && isMore) [from, named] = [copy, copy.currency ?? named];
    else if (!copy.isLate && !(isOfPartner(copy) && from?.isPixel === false)) named ??= copy.currency;
  }
  return { from, named };
};
const worthOf = (copies: readonly Copy[]): { readonly value: bigint; readonly currency: string } => {
  const { from, named: currency = "MXN" } = amountIn(copies);
  return { value: from === undefined ? 0n : minorIn(currency, from), currency };
};
const moneyOf = ({ copies, late }: Pick<Sale, "copies" | "late">) => worthOf([...copies, ...late]);
/**
 * Whether lines come to a total: two minor units a line are a shop's rounding. What names no
 * currency is in that of the others.
 */
const comesTo = (lines: readonly (readonly Copy[])[], total: readonly Copy[], tolerance = 2n): boolean => {
  const all = [total, ...lines].map((copies) => amountIn(copies));
  const currency = all.find(({ named }) => named !== undefined)?.named ?? "MXN";
  if (all.some(({ named = currency }) => named !== currency)) return false;
  const [whole, ...parts] = all.map(({ from }) => minorIn(currency, from!));
  const apart = sum(parts) - whole!;
  return most(apart, -apart) <= tolerance * BigInt(lines.length);
};
const amountsOf = ({ copies, late }: Sale): readonly Copy[] => [...copies, ...late];
/** The lines that come to a total. One that does not name its product may be one of them. */
const linesOf = (sales: readonly Sale[], total: readonly Copy[]): readonly Sale[] => {
  const named = sales.filter((one) => !isUnnamed(one));
  const found = [sales, named].find((some) => some.length > 0 && comesTo(some.map(amountsOf), total));
  return found ?? [];
};

class Books {
  readonly history: History;
  readonly accounts: Accounts;
  readonly orders = new Map<string, Order>();
  readonly seen = new Map<
    string,
    { readonly contents: readonly string[]; readonly order: Order; lines: readonly Sale[] }
  >();
  readonly refused: Record<string, string> = {};
  readonly past: Happening[] = [];
  /** Refused and repeated events, and rows of undone files: the books are as without them. */
  readonly ignored = new Set<Happening>();
  constructor(history: History) {
    this.history = history;
    this.accounts = new Accounts(history);
  }

  /** What names a sale that is gone names these. */
  replace(gone: Sale, by: readonly Sale[]): void {
    for (const one of this.seen.values())
      if (one.lines.includes(gone)) one.lines = [...new Set([...one.lines.filter((line) => line !== gone), ...by])];
  }

  orderOf(key: string): Order {
    const order = this.orders.get(key) ?? { sales: [], refunds: [], held: new Map(), decisions: [] };
    this.orders.set(key, order);
    return order;
  }

  happen(one: Happening): void {
    this.past.push(one);
    if (one.is === "undo") this.undo(one);
    else if (one.is === "look-up") this.lookUp(one.receivedAt);
    else if (one.is === "event") this.take(read(one));
    else if (one.is === "backfill") this.backfill(one);
    else if (one.is === "reprocess") return;
    else this.judge(one);
  }

  take(sent: Sent): void {
    const [type, at, id] = [typeOf(sent), timeOf(sent), `${sent.client}/${sent.id}`];
    const isCommissioned = () => this.accounts.contractsOf(sent.client, type, at, sent.receivedAt).length > 0;
    if (![...earning, "refund"].includes(type) && (others.includes(type) || !isCommissioned())) return;
    const content = `${type} ${orderIdOf(sent)} ${sent.amount} ${sent.currency}`;
    const before = this.seen.get(id);
    if (before?.contents.includes(content) === true) {
      this.ignored.add(this.past.at(-1)!);
      return;
    }
    // Anyone sends in the name of a page, so another content under the same id is another event.
    if (before !== undefined && !sent.isPixel) {
      this.refused[id] = "id_conflict";
      this.ignored.add(this.past.at(-1)!);
      return;
    }
    const hasOrder = sent.order !== undefined && !isWeak(sent) && type !== "install" && type !== "lead_submit";
    const lead = type === "lead_submit" ? (sent.email ?? sent.leadId) : undefined;
    // A stranger may send one in the name of a page, to catch the refund of another: so that
    // waits for the look-up.
    const alone = `${sent.isPixel ? "page" : "event"} ${sent.id}`;
    const hasDevice = type === "install" && sent.did !== "guest";
    const keyed =
      sent.dedupKey === undefined ? sent.saleHash && `row ${sent.saleHash}` : `${sent.source} ${sent.dedupKey}`;
    const own = hasDevice ? `did ${sent.did.trim()}` : lead !== undefined ? `lead ${lead}` : (keyed ?? alone);
    const by = sent.about === undefined ? own : `event ${sent.about}`;
    const order = this.orderOf(`${sent.client} ${hasOrder ? `order ${orderIdOf(sent)}` : by}`);
    const now = { contents: [...(before?.contents ?? []), content], order, lines: before?.lines ?? [] };
    this.seen.set(id, now);
    if (type === "refund") this.giveBack(order, sent);
    else {
      const claimed = { ...sent, claims: claimOf(sent, this.history) };
      const lines = sell(order, { ...claimed, at: datedOf(claimed, this.history) }, type, hasOrder, this);
      if (now.lines.length === 0) now.lines = lines;
    }
    this.book(order, sent.receivedAt);
  }

  /** Row by row, what a file has said of an order counts no more. */
  undo({ client, file, receivedAt }: Undone): void {
    const rows = this.past.filter(
      (one): one is Sent => one.is === "event" && one.client === client && one.file === file && !this.ignored.has(one),
    );
    for (const id of new Set(rows.map((row) => row.id)))
      this.withdraw(
        rows.filter((row) => row.id === id),
        receivedAt,
      );
  }

  withdraw(rows: readonly Sent[], receivedAt: number): void {
    const { client, id } = rows[0]!;
    const seen = this.seen.get(`${client}/${id}`);
    if (seen === undefined) return;
    const without = new Books(this.history);
    for (const one of this.past)
      if (one.is !== "undo" && !this.ignored.has(one) && !rows.includes(one as Sent)) without.happen(one);
    const [key] = [...this.orders].find(([, order]) => order === seen.order)!;
    const next = without.orderOf(key);
    // Of a total that stood for several lines, the first one is asked.
    if (seen.lines.slice(0, 1).some((sale) => isGivenSince(sale, rows[0]!, next, this.history))) return;
    for (const row of rows) this.ignored.add(row);
    this.orders.set(key, next);
    for (const [name, one] of this.seen)
      if (one.order === seen.order)
        this.seen.set(name, { ...one, order: next, lines: without.seen.get(name)?.lines ?? [] });
    this.rebook(seen.order, next, receivedAt);
  }

  /** What is gone or another sale now goes back first; then each line is booked as it is. */
  rebook(before: Order, after: Order, receivedAt: number): void {
    const was = new Map(before.sales.map((sale) => [sale.first.id, sale]));
    for (const sale of before.sales)
      if (!after.sales.some(({ first }) => first.id === sale.first.id)) this.accounts.close(sale.credit);
    for (const sale of after.sales) {
      const old = was.get(sale.first.id);
      const [credit, { value, currency }] = [old?.credit ?? null, moneyOf(sale)];
      const isSame =
        credit?.partner === sale.holder &&
        credit.value === value &&
        credit.currency === currency &&
        credit.segment === segmentOf(sale) &&
        credit.isHeld === (sale.isHeld || sale.isDisputed) &&
        old!.known === sale.known &&
        old!.isQuiet === sale.isQuiet;
      // Refunds have left nothing of it to book again.
      const isGone = !isSame && credit !== null && sale.isBack && credit.partner === sale.holder;
      if (isGone) this.accounts.change(credit, { isHeld: credit.isHeld, refunded: credit.value, isBack: true });
      else if (!isSame) this.accounts.close(credit);
      sale.credit = isSame || isGone ? credit : null;
    }
    this.book(after, receivedAt, true);
  }

  /** The lines that a refund names: those of an event, those of a product, or all. */
  namedBy({ client, about, product, amount }: Sent, { sales }: Order): readonly Sale[] {
    const lines = this.seen.get(`${client}/${about}`)?.lines;
    const isKeptTotal = (sale: Sale): boolean => sale.isKept && sale.product === undefined;
    // A part of a total that stands, without an amount, has no worth that is known.
    const isMeasured = (sale: Sale): boolean => amount !== undefined || about === sale.first.id;
    return sales.filter((sale) =>
      about !== undefined
        ? lines?.includes(sale) && (!isKeptTotal(sale) || isMeasured(sale))
        : product === undefined || product === sale.product || (isKeptTotal(sale) && isMeasured(sale)),
    );
  }

  /** Whether another refund of the same line, or of the whole order, has the same refund id. */
  isCopy(refund: Sent, others: readonly Sent[], order: Order): boolean {
    const names = (one: Sent): readonly unknown[] => (isOfLine(one) ? this.namedBy(one, order) : [order]);
    const own = names(refund);
    return others.some(
      (one) =>
        one.refundId !== undefined &&
        one.refundId === refund.refundId &&
        (isOfSameGoods(one, refund) || names(one).some((it) => own.includes(it))),
    );
  }

  giveBack(order: Order, refund: Sent): void {
    tellApart(order, refund);
    if (this.isCopy(refund, order.refunds, order)) return;
    const first = this.twinOf(order, refund);
    if (first !== undefined) order.held.set(refund, { first, isOne: false });
    order.refunds = [...order.refunds, refund].sort((a, b) => a.receivedAt - b.receivedAt);
  }

  worthOf(refund: Sent, order: Order): string {
    const first = firstOf(this.namedBy(refund, order));
    const currency = refund.currency ?? (first === undefined ? "MXN" : currencyIn(first));
    return refund.amount === undefined ? "all" : `${minorIn(currency, refund)} ${currency}`;
  }

  /** The refund that another source reported alike, if that source has not reported it yet. */
  twinOf(order: Order, refund: Sent): Sent | undefined {
    const counting = order.refunds.filter((one) => !order.held.has(one));
    const { refundId, source } = refund;
    if (refundId !== undefined && counting.some((one) => one.refundId === refundId)) return undefined;
    const own = this.namedBy(refund, order);
    return counting.find(
      (one) =>
        one.source !== source &&
        (one.refundId === undefined || refundId === undefined) &&
        Math.abs(one.receivedAt - refund.receivedAt) <= MERGES &&
        this.worthOf(one, order) === this.worthOf(refund, order) &&
        (!isOfLine(one) ||
          !isOfLine(refund) ||
          isOfSameGoods(one, refund) ||
          this.namedBy(one, order).some((sale) => own.includes(sale))) &&
        ![...order.held].some(([held, { first }]) => first === one && held.source === source),
    );
  }

  /** Moves a waiting refund to the line of the event that it names; its time of receipt stays. */
  lookUp(receivedAt: number): void {
    const waiting = [...this.orders].flatMap(([key, from]) =>
      key.includes(" event ") ? from.refunds.map((refund) => ({ from, refund })) : [],
    );
    for (const { from, refund } of waiting.sort((a, b) => a.refund.receivedAt - b.refund.receivedAt)) {
      const to = this.seen.get(`${refund.client}/${refund.about}`);
      if (to === undefined || to.order === from || to.lines.length === 0) continue;
      if (from.held.get(refund)?.isOne) continue;
      from.refunds = from.refunds.filter((one) => one !== refund);
      from.held.delete(refund);
      for (const [held, { first, isOne }] of from.held) if (first === refund && !isOne) from.held.delete(held);
      this.giveBack(to.order, refund);
      this.book(to.order, receivedAt);
    }
  }

  judge(decision: Decided): void {
    const about = this.seen.get(`${decision.client}/${decision.about}`);
    const order = about?.order ?? this.orderOf(`${decision.client} order ${decision.order}`);
    const total = totalOf(order);
    // Where nothing is disputed, what stands says nothing of other holds.
    if (decision.keep !== undefined && (total === undefined || total.isKept)) return;
    // A release is about the sales that are there; without one it waits, as it may after an undo.
    const isMet = order.sales.some(({ product }) => decision.product === undefined || decision.product === product);
    if (about === undefined && (decision.kind !== "release" || !isMet)) order.decisions.push(decision);
    for (const [held, said] of order.held)
      if (held.id !== decision.about || said.isOne) continue;
      else if (decision.kind === "release") order.held.delete(held);
      else if (decision.kind === "reject" || decision.kind === "take_back") said.isOne = true;
    if (decision.keep === undefined || total === undefined)
      for (const sale of about?.lines ?? order.sales) decide(sale, decision);
    else if (decision.keep === "lines")
      keepLines(
        order,
        order.sales.filter((one) => one !== total),
        total,
        this,
        true,
      );
    else keepTotal(order, total, this);
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
      const isHeld = sale.isHeld || (!sale.isDisputed && (isDisputed || doCopiesDisagree(sale)));
      const isMoved = sale.holder !== partner;
      const isChanged = isMoved || (sale.holder !== null && isHeld !== sale.isHeld);
      if (credit !== null && !sale.isQuiet && !recalculates && isChanged) return;
      if (isMoved) sale.isQuiet = !recalculates;
      if (isChanged) sale.known = receivedAt;
      const copies = sale.copies.map((copy, n) => ({ ...copy, claims: n === 0 ? partner : null }));
      sale.copies.splice(0, copies.length, ...copies);
      Object.assign(sale, { holder: partner, isHeld, alsoClaimed: [] });
    }
    this.book(seen.order, receivedAt);
  }

  open(sale: Sale): Credit | null {
    const { first, type, at, holder: partner, isQuiet, known } = sale;
    const person = sale.copies.find((copy) => copy.person !== undefined)?.person;
    const worth = { first, segment: segmentOf(sale), person, type, at, ...moneyOf(sale), isQuiet };
    return partner === null ? null : this.accounts.open({ ...worth, partner }, known);
  }

  /**
   * Updates the books of an order to its present claims: changed credits are closed, then the new
   * ones are opened.
   */
  book(order: Order, receivedAt: number, isRebuilt = false): void {
    spread(order, this);
    for (const sale of order.sales) {
      const { value, currency } = moneyOf(sale);
      const { credit: was, holder: partner, refunded, isBack } = sale;
      const isHeld = sale.isHeld || sale.isDisputed;
      const isReleased = was?.isHeld === true && !isHeld && sale.byPerson;
      const isPaidAlike = was?.value === value && was.currency === currency && was.segment === segmentOf(sale);
      const isSame = !sale.isAgain && was?.partner === partner && isPaidAlike;
      // Another amount is no sale again if refunds leave nothing of it.
      const isGone = was?.partner === partner && isBack;
      const isLess = was !== null && (was.refunded > refunded || (was.isBack && !isBack));
      if (!isGone && (!isSame || !(isReleased || was.isHeld === isHeld) || isLess)) {
        this.accounts.close(was);
        if (was?.partner !== partner && !isRebuilt) sale.known = receivedAt;
        sale.credit = this.open(sale);
      }
      sale.isAgain = false;
      const { credit } = sale;
      if (credit === null) continue;
      const now = { isHeld, refunded: isGone ? credit.value : refunded, isBack };
      const isAsBefore = credit.isHeld === isHeld && credit.refunded === now.refunded && credit.isBack === isBack;
      if (!isAsBefore) this.accounts.change(credit, now);
    }
  }
}

/**
 * The segment chooses the contract. The client's own word comes before that of a page, then its
 * word of the whole order, and a partner names it only where the client's own systems say nothing.
 */
const segmentOf = ({ spoken }: Sale): string | undefined => {
  const first = (isAsked: (copy: Copy) => boolean) =>
    spoken.find((copy) => copy.segment !== undefined && isAsked(copy))?.segment;
  const isOfPage = ({ isPixel }: Copy): boolean => isPixel;
  const known = first(isOfClient) ?? first(isOfPage) ?? spoken.find((copy) => copy.ofOrder !== undefined)?.ofOrder;
  return known ?? (spoken.some(isTold) ? undefined : first(isOfPartner));
};
const isTold = (copy: Copy): boolean => copy.isTold === true || isOfClient(copy);
/** What the copies of a total say of each of its lines, and lines of a total. */
const saidBy = ({ spoken }: Sale): Pick<Copy, "isTold" | "ofOrder"> => ({
  isTold: spoken.some(isTold),
  ofOrder: spoken.find((copy) => copy.segment !== undefined && isOfClient(copy))?.segment,
});

/** A person gave the sale to another partner than the row did, and nothing else is left of it. */
const isGivenSince = (sale: Sale, row: Sent, { sales }: Order, history: History): boolean => {
  if (!sale.byPerson || sale.holder === null || sale.holder === claimOf(read(row), history)) return false;
  const isLead = sale.type === "lead_submit";
  return !sales.some((one) => sale.events.includes(one.first.id) || (!isLead && one.product === sale.product));
};

/** The lines that a copy is of: of a line, or of the whole order and each of its lines. */
const metBy = (sales: readonly Sale[], sent: Copy, type: string, hasOrder: boolean): readonly Sale[] => {
  if (type === "lead_submit") return [leadIn(sales, sent) ?? []].flat();
  if (!hasOrder) return sales.slice(0, 1);
  const { product, receivedAt } = sent;
  const known = sales.find((one) => one.product === product);
  const total = sales.find((one) => one.product === undefined);
  if (known !== undefined) return [known];
  if (product === undefined) {
    const isSoon = sales.every((one) => isWithin(one, receivedAt) && !one.isKept);
    return isSoon ? linesOf(sales, [sent]) : sales;
  }
  if (total?.isKept) return [total];
  const isAlike = (one: Sale): boolean => comesTo([[sent]], amountsOf(one), one === total ? 2n : 0n);
  if (product === UNNAMED) return sales.filter(isAlike);
  return sales.filter(
    (one) => sales.length === 1 && (one === total || isUnnamed(one)) && isWithin(one, receivedAt) && isAlike(one),
  );
};

/** A new line, or another copy of lines. */
const sell = (order: Order, sent: DatedCopy, type: string, hasOrder: boolean, books: Books): readonly Sale[] => {
  const { product, receivedAt } = sent;
  const { sales } = order;
  const met = [...metBy(sales, sent, type, hasOrder)];
  const { amount: _, currency: __, segment: ___, ...withoutMoney } = sent;
  let named: Sale | undefined;
  for (const line of met) {
    line.events.push(sent.id);
    const isNamed = hasOrder && (line.product === undefined || isUnnamed(line)) && !line.isKept && isNaming(product);
    if (isNamed) line.product = product;
    // A sale with a key of its own is one line, whatever its product.
    const isOfOther = hasOrder && (product === UNNAMED || (line.product !== undefined && line.product !== product));
    const isPart = met.length > 1 || (line.isKept && line.product === undefined && product !== undefined);
    const ofOrder = isPart && isOfClient(sent) ? sent.segment : undefined;
    const copy: Copy = { ...(isPart ? withoutMoney : sent), isOfOther, ofOrder };
    if (isMerged(line, receivedAt)) merge(line, copy, sales);
    else if (isOfClient(copy)) {
      line.spoken.push(copy);
      if (copy.amount !== undefined) line.late.push({ ...copy, isLate: true });
    }
    named = isNamed ? line : named;
  }
  if (met.length > 0) {
    if (hasOrder) compare(order, receivedAt, books);
    // What was decided about the product before its line had one.
    if (named !== undefined) decideWaiting(order, named, ({ product: of }) => of === product);
    return met.flatMap((one) => (sales.includes(one) ? one : books.seen.get(`${sent.client}/${one.first.id}`)!.lines));
  }
  const unnamed = hasOrder ? sales.find(isUnnamed) : undefined;
  const line: Sale = {
    ...{
      first: sent,
      type,
      at: sent.at,
      product,
      leadId: sent.leadId,
      copies: [sent],
      late: [],
      spoken: [sent],
      events: [sent.id],
      holder: sent.claims,
    },
    ...{ isHeld: sent.verdict === "review", byPerson: false, isQuiet: false, isAgain: false, released: 0 },
    ...{ refunded: 0n, isBack: false, known: 0, credit: null, isDisputed: false, isKept: false, alsoClaimed: [] },
  };
  sales.push(line);
  // One that should have named its product is held beside others, or they are if it is not.
  if (unnamed !== undefined && isMerged(unnamed, receivedAt) && !unnamed.byPerson) unnamed.isHeld = true;
  const isWaiting = unnamed === undefined || (unnamed.isHeld && !(unnamed.byPerson && unnamed.holder === null));
  if (product === UNNAMED ? sales.length > 1 : product !== undefined && !isWaiting) line.isHeld = true;
  if (line.holder !== null) review(line, sales);
  if (hasOrder && !compare(order, receivedAt, books)) dispute(order, line);
  decideWaiting(order, line);
  return [line];
};

/** A release that has waited is about one sale. */
const decideWaiting = (
  { decisions }: Order,
  sale: Sale,
  isAsked: (decision: Decided) => boolean = () => true,
): void => {
  for (const decision of decisions.filter(isAsked)) {
    decide(sale, decision);
    const isOf = decision.product === undefined || decision.product === sale.product;
    if (decision.kind === "release" && isOf) decisions.splice(decisions.indexOf(decision), 1);
  }
};

const totalOf = ({ sales }: Order): Sale | undefined => {
  const total = sales.find(({ product }) => product === undefined);
  return sales.some(({ product }) => product !== undefined) ? total : undefined;
};
/** Lines that come to their total within 48 hours are all that is left of both. */
const compare = (order: Order, receivedAt: number, books: Books): boolean => {
  const total = totalOf(order);
  if (total === undefined || total.isKept || !isWithin(total, receivedAt)) return false;
  const lines = order.sales.filter((one) => one !== total);
  if (lines.every(isUnnamed) || !lines.every((one) => isWithin(one, total.first.receivedAt))) return false;
  const met = linesOf(lines, amountsOf(total));
  if (met.length > 0) keepLines(order, met, total, books);
  return met.length > 0;
};
/** A new line, or a new total, is held with what it disagrees with, unless a person has decided. */
const dispute = (order: Order, made: Sale): void => {
  const total = totalOf(order);
  if (total === undefined || isUnnamed(made)) return;
  const lines = order.sales.filter((one) => one !== total);
  const isWaiting = (one: Sale): boolean => one.isHeld && !(one.byPerson && one.holder === null);
  if (made === total && lines.every((one) => isUnnamed(one) && isWaiting(one))) return;
  made.isDisputed = true;
  const others = made === total ? lines.filter((one) => !isUnnamed(one)) : [total];
  for (const one of others) if (!one.byPerson && isWithin(one, made.first.receivedAt)) one.isDisputed = true;
};
/** The total is a copy of each line, and what a person decided about it holds for them. */
const keepLines = (order: Order, lines: readonly Sale[], total: Sale, books: Books, isByPerson = false): void => {
  remove(order, [total], books);
  const { amount: _, currency: __, segment: ___, ...copy } = { ...total.first, claims: total.holder, ...saidBy(total) };
  for (const line of lines) {
    if (line.isDisputed || (isByPerson && line.isHeld)) line.isAgain = true;
    const before = line.holder;
    if (total.byPerson && !line.byPerson) Object.assign(line, { holder: total.holder, isHeld: false, byPerson: true });
    if (total.isHeld && !line.byPerson) line.isHeld = true;
    merge(line, { ...copy, verdict: copy.verdict === "review" ? "ok" : copy.verdict }, order.sales);
    line.alsoClaimed.push(...total.copies.flatMap(({ claims }) => claims ?? []), ...total.alsoClaimed);
    line.events.push(...total.events);
    if (line.holder !== before) line.isQuiet = line.holder !== null && total.isQuiet;
    line.isDisputed = false;
    if (!isByPerson) continue;
    Object.assign(line, { isKept: true, isHeld: false, byPerson: line.byPerson || line.holder !== null });
    line.released = line.copies.length;
  }
  books.replace(total, lines);
};
/** The lines are copies of the total. Without a partner it is that of its first credited line. */
const keepTotal = (order: Order, total: Sale, books: Books): void => {
  const lines = order.sales.filter((one) => one !== total);
  remove(order, lines, books);
  if (!total.byPerson) total.holder ??= lines.find(({ holder }) => holder !== null)?.holder ?? null;
  if (total.isDisputed || total.isHeld) total.isAgain = true;
  const byPerson = total.byPerson || total.holder !== null;
  Object.assign(total, { isKept: true, isDisputed: false, isHeld: false, byPerson, released: total.copies.length });
  for (const line of lines) {
    const { copies, alsoClaimed, events } = line;
    const { segment: _, ...first } = line.first;
    total.spoken.push({ ...first, claims: null, ...saidBy(line) });
    total.alsoClaimed.push(...copies.flatMap(({ claims }) => claims ?? []), ...alsoClaimed);
    total.events.push(...events);
  }
  for (const line of lines) books.replace(line, [total]);
};
/** What is gone earns nothing any more, before anything else is booked. */
const remove = (order: Order, gone: readonly Sale[], { accounts }: Books): void => {
  for (const sale of gone) accounts.close(sale.credit);
  const rest = order.sales.filter((one) => !gone.includes(one));
  order.sales.splice(0, order.sales.length, ...rest);
};
const merge = (line: Sale, sent: Copy, sales: readonly Sale[]): void => {
  line.copies.push(sent);
  line.spoken.push(sent);
  line.leadId ??= sent.leadId;
  if (line.byPerson) return;
  const isFirst = line.holder === null && sent.claims !== null;
  if (isFirst) line.holder = sent.claims;
  if (sent.verdict === "review") line.isHeld = true;
  if (line.holder !== null) review(line, isFirst ? sales : null);
  else if (doCopiesDisagree(line)) line.isHeld = true;
};
/** A lead id is one lead for ever. If one of two leads has none, they are one within 48 hours. */
const leadIn = (sales: readonly Sale[], sent: Sent): Sale | undefined => {
  const away = ({ first }: Sale): number => Math.abs(timeOf(first) - timeOf(sent));
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
const review = (sale: Sale, among: readonly Sale[] | null): void => {
  const own = [...claimsOf(sale), ...sale.alsoClaimed];
  const others = (among ?? []).flatMap((one) => (one === sale ? [] : earningClaimsOf(one)));
  const isDisputed = [...claimsOf(sale), ...(among === null ? [] : [...own, ...others])].some(
    (partner) => partner !== sale.holder,
  );
  if (isDisputed || doCopiesDisagree(sale)) sale.isHeld = true;
};
const doCopiesDisagree = ({ first, copies, released }: Sale): boolean =>
  new Set([first, ...copies.slice(released)].map(({ verdict }) => verdict === "reject")).size > 1;

/**
 * A person's decision stands against every later copy. Assigning takes a sale from no partner, and
 * a release only affects a held one.
 */
const decide = (sale: Sale, { kind, partner, product, band }: Decided): void => {
  if (product !== undefined && product !== sale.product) return;
  if (kind === "flag") {
    flag(sale, band!);
    return;
  }
  if (kind === "assign" && sale.holder !== null && sale.holder !== partner) return;
  if (kind === "release") sale.released = sale.copies.length;
  if (kind === "release" && sale.isDisputed) {
    // The copies of others have their answer for this line, and still claim its order.
    const others = sale.copies.filter(({ claims }) => claims !== null && claims !== sale.holder);
    sale.alsoClaimed.push(...others.map(({ claims }) => claims!));
    const said = sale.copies.map((copy) => (others.includes(copy) ? { ...copy, claims: null } : copy));
    sale.copies.splice(0, said.length, ...said);
    sale.isHeld = false;
    return;
  }
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

const leftOf = (sale: Sale): bigint => moneyOf(sale).value - sale.refunded;
const goBack = (sale: Sale, part: bigint): void => {
  sale.refunded += part;
  sale.isBack = leftOf(sale) === 0n;
};
/** An amount only counts in its own currency; without one, in that of the first line. */
const fits = ({ amount, currency }: Sent, own: string, among: readonly Sale[]): boolean =>
  amount === undefined || (currency ?? currencyIn(firstOf(among)!)) === own;
/** The one that was received first, which need not be the one that was read first. */
const firstOf = (sales: readonly Sale[]): Sale | undefined =>
  sales.toSorted((a, b) => a.first.receivedAt - b.first.receivedAt)[0];
const isOfLine = ({ product, about }: Sent): boolean => product !== undefined || about !== undefined;

/** Both name the same product, event or order, whether or not its line has come. */
const isOfSameGoods = (a: Sent, b: Sent): boolean => a.product === b.product && a.about === b.about;

/** Who reports the refund id of another source's refund had reported another refund before. */
const tellApart = ({ held }: Order, { refundId, source }: Sent): void => {
  for (const [second, { first, isOne }] of held) {
    if (refundId === undefined || isOne) continue;
    const isSecond = second.refundId === refundId && first.source === source;
    if (isSecond || (first.refundId === refundId && second.source === source)) held.delete(second);
  }
};

/**
 * Spreads refunds of lines first, then refunds of the whole order over the rest. After 48 hours
 * each refund is spread when it comes, and for good.
 */
const spread = (order: Order, books: Books): void => {
  const { sales, refunds } = order;
  for (const sale of sales) Object.assign(sale, { refunded: 0n, isBack: false });
  const given = refunds.filter((one) => !order.held.has(one));
  const counting = given.filter((one, n) => !books.isCopy(one, given.slice(0, n), order));
  const closes = Math.min(...sales.map(({ first }) => first.receivedAt)) + MERGES;
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
      const named = isAll ? sales : sales.filter((sale) => isOfLine(refund) && moneyOf(sale).value === 0n);
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
  // Two sales of a page may have one id of their sender.
  const add = (name: string, amount: bigint): void => {
    money[name] = (money[name] ?? 0n) + amount;
  };
  for (const { credit, first, at } of [...orders.values()].flatMap(({ sales }) => sales))
    if (credit !== null)
      add(
        `${first.client}/${first.id} ${credit.partner} ${accountOf(credit)} ${credit.currency} ${monthOf(at)}`,
        owed(credit),
      );
  return money;
};
const accountOf = ({ isHeld }: Credit): "held" | "payable" => (isHeld ? "held" : "payable");

/** A closed month takes no bookings: they go to the first open month after it. */
const openMonthOf = (name: string, history: History, receivedAt: number): string => {
  const [, client, partner, , ends] = /^(\d+)\/\S+ (\d+) (.*) (\S+)$/.exec(name)!;
  let [year, month] = ends!.split("-").map(Number) as [number, number];
  while (isClosedAt(history, `${client} ${partner} ${year}-${month}`, receivedAt))
    [year, month] = month === 12 ? [year + 1, 1] : [year, month + 1];
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
  disputed: number;
  revenue: bigint;
  refunded: bigint;
}
/**
 * Each order counts in each of its currencies for the month of its first line: as the larger of its
 * total and its lines, if it has both.
 */
export const reportsOf = (history: History): Readonly<Record<string, Reported>> => {
  const reports: Record<string, Reported> = {};
  for (const { sales } of booksAfter(history).orders.values())
    for (const currency of new Set(sales.map(currencyIn))) {
      const lines = sales.filter((one) => isGoods(one) && currencyIn(one) === currency).sort((a, b) => a.at - b.at);
      if (lines[0] === undefined) continue;
      const key = `${lines[0].first.client} ${monthOf(lines[0].at)} ${currency}`;
      const before = reports[key] ?? { orders: 0, disputed: 0, revenue: 0n, refunded: 0n };
      const worths = [true, false].flatMap((isTotal) => {
        const some = lines.filter(({ first, product }) => hasOrderId(first) && (product === undefined) === isTotal);
        return some.length === 0 ? [] : [sum(some.map((sale) => moneyOf(sale).value))];
      });
      const revenue = worths.length < 2 ? sum(lines.map((sale) => moneyOf(sale).value)) : most(worths[0]!, worths[1]!);
      reports[key] = {
        orders: before.orders + 1,
        disputed: before.disputed + (worths.length < 2 ? 0 : 1),
        revenue: before.revenue + revenue,
        refunded: before.refunded + least(revenue, sum(lines.map(({ refunded }) => refunded))),
      };
    }
  return reports;
};
const hasOrderId = (sent: Sent): boolean => sent.order !== undefined && !isWeak(sent);
const isGoods = ({ type }: Sale): boolean => type === "purchase" || type === "ext_purchase";
const currencyIn = (sale: Sale): string => moneyOf(sale).currency;

export const answersTo = (history: History): Answers => {
  const { orders, accounts, refused, money } = booksAfter(history);
  const lines: Record<string, Line> = {};
  for (const sale of [...orders.values()].flatMap(({ sales }) => sales)) {
    const { credit, first, type, refunded } = sale;
    const { value: sold, currency } = moneyOf(sale);
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
            payableFrom: credit.earned === 0n ? null : first.receivedAt + accounts.holdOf(first.client, type),
          };
  }
  return { lines, money, refused, broken: [] };
};
