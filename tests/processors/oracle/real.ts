// Runs histories through the edge's admission and the real stages attribute, settle and commission,
// and reads the results.
import { clickIdKey, mint } from "../../../domain/click-id.ts";
import { identifyFor } from "../../../domain/device-id.ts";
import { type Contract, reference } from "../../../domain/reference/reference.ts";
import { referenceOf } from "../../../domain/reference/snapshot.ts";
import { admitEvent } from "../../../processors/admit/event.ts";
import { textsOf } from "../../../processors/admit/shape.ts";
import { clickKeys, clickKeysOf } from "../../../processors/attribute/facts.ts";
import { decisionOnLine, decisionOnOrder } from "../../../processors/settle/decision-claim.ts";
import type {
  Claim,
  Conversion,
  EventAttributed,
  EventReceived,
  EventScored,
  LedgerEntry,
} from "../../../schemas/generated.ts";
import type { Read } from "../../../stream/flow.ts";
import { campaign, client, contract, enrichment, forged, fraud, link, partner, reads } from "../../support/builders.ts";
import type {
  Answers,
  Backfilled,
  ContractSaved,
  Decided,
  History,
  Line,
  Reprocessed,
  Sent,
  Undone,
} from "./history.ts";
import { brokenSums } from "./sums.ts";

export const partners = [21, 22, 23] as const;
const key = clickIdKey("a secret of the oracle", 1);
const keys = clickKeysOf([key]);
const identify = identifyFor(Buffer.alloc(32, 7), 10_000);
const scores = { ok: 0, review: 50, reject: 90 } as const;
const DAY_MS = 86_400_000;

/** The stages of money, each hosted alone. */
export const moneyStages = [["attribute"], ["settle"], ["commission"]] as const;

/** Histories that run side by side share no client: `apart` keeps their ids apart. */
const idIn = (apart: number, id: number): number => apart * 10 + id;
const campaignIdOf = (clientId: number, which: "all" | "one"): number => clientId + (which === "all" ? 0 : 5);
const linkIdOf = (clientId: number, partnerId: number): number => clientId * 100 + partnerId;

const contractOf = (saved: ContractSaved, n: number, apart: number, currency: string): Contract => {
  const { min = null, max = null, cap = null, amount = null, rate_ppm = null, months = null, tiers = [] } = saved;
  const holdsAmounts = min !== null || max !== null || cap !== null || amount !== null || saved.type === "tiered";
  return contract({
    recorded_at: saved.recordedAt,
    valid_from: saved.recordedAt,
    ...{
      contract_id: apart * 100 + (saved.isNextVersion ? Math.max(0, n - 1) : n),
      version: saved.isNextVersion ? 2 : 1,
    },
    client_id: idIn(apart, saved.client),
    partner_id: saved.partner,
    segment: saved.segment,
    event_type: saved.event_type,
    type: saved.type,
    rate_ppm,
    currency: holdsAmounts ? currency : null,
    amount_minor: amount,
    tiers: tiers.map(({ from, price }) => ({
      from,
      rate_ppm: saved.paysAmounts ? null : price,
      amount_minor: saved.paysAmounts ? price : null,
    })),
    tier_mode: saved.isRetroactive ? "retroactive" : "marginal",
    months,
    per: saved.isPerOrder ? "order" : "line",
    min_minor: min,
    max_minor: max,
    cap: cap === null ? null : { period: cap.period, amount_minor: cap.amount },
    effective_from: saved.from,
    effective_to: saved.to,
  });
};

/** The facts for the stages of all these histories, which have the numbers from `from` on. */
export const knownTo = (histories: readonly History[], from = 0): Read => {
  const clients = histories.flatMap((history, n) =>
    history.clients.map((one) =>
      client({
        ...{ client_id: idIn(from + n, one.id), currency: one.currency },
        ...{ hold_days: one.holdDays, late_hours: one.lateHours },
      }),
    ),
  );
  const everywhere = clients.map(({ client_id }) => client_id);
  const rows = {
    clients,
    partners: partners.map((partner_id) => partner({ partner_id, client_ids: everywhere })),
    campaigns: histories.flatMap(({ clients: all, patterns }, n) =>
      all.flatMap(({ id }) =>
        (["all", "one"] as const).map((which) =>
          campaign({
            campaign_id: campaignIdOf(idIn(from + n, id), which),
            client_id: idIn(from + n, id),
            patterns: patterns
              .filter((one) => one.client === id && one.campaign === which)
              .map(({ kind, value, partner: partner_id }) => ({ kind, value, ...(partner_id && { partner_id }) })),
          }),
        ),
      ),
    ),
    links: everywhere.flatMap((client_id) =>
      [...partners, null].map((partner_id) => {
        const link_id = linkIdOf(client_id, partner_id ?? 0);
        const campaign_id = campaignIdOf(client_id, partner_id === null ? "one" : "all");
        return link({ link_id, client_id, campaign_id, partner_id: partner_id ?? partners[0], code: `l${link_id}` });
      }),
    ),
    contracts: histories.flatMap((history, at) =>
      history.contracts.map((one, n) =>
        contractOf(one, n, from + at, history.clients.find(({ id }) => id === one.client)!.currency),
      ),
    ),
    rules: [],
    periods: histories.flatMap(({ closed }, n) =>
      closed.map(({ client: id, partner: partner_id, year, month, recordedAt, isReopened }) => ({
        ...{ client_id: idIn(from + n, id), partner_id, year, month },
        status: isReopened === true ? ("open" as const) : ("closed" as const),
        ...{ recorded_at: recordedAt, valid_from: recordedAt },
      })),
    ),
  };
  return reads([reference, referenceOf(rows, Number.MAX_SAFE_INTEGER)], [clickKeys, keys]);
};

const sentAs = (sent: Sent, clientId: number): object => {
  const { t, name, ts, did, click, order, product, segment, amount, currency, refundId, about, email, leadId } = sent;
  const { coupon, url } = sent;
  const clickId =
    click === undefined ? undefined : mint(linkIdOf(clientId, click.partner), click.at, new Uint8Array(8), key);
  const amountIs = t === "refund" ? "amount" : t === "lead_submit" ? "lead_value" : "revenue";
  const props = {
    ...(name !== undefined && { event_name: name }),
    order_id: order,
    product_id: product,
    product_line: segment,
    quantity: 1,
    currency,
    refund_id: refundId,
    refunded_event_id: about,
    coupon,
    email,
    product: email === undefined ? undefined : product,
    client_lead_id: leadId,
    ...(amount !== undefined && { [amountIs]: amount }),
  };
  const svc_click_id = click?.isForged ? forged(clickId!) : clickId;
  return { t, ts, cid: clientId, did, event_id: sent.id, svc_click_id, url, props };
};

export type Published =
  | { readonly topic: "scored"; readonly data: EventScored; readonly at: number; readonly receivedAt: number }
  | { readonly topic: "claims"; readonly data: Claim; readonly at: number; readonly receivedAt: number }
  | { readonly topic: "undo"; readonly claims: readonly Extract<Published, { readonly topic: "claims" }>[] }
  | { readonly topic: "look-up"; readonly receivedAt: number }
  | { readonly topic: "reprocess"; readonly asked: Reprocessed; readonly clientId: number }
  | { readonly topic: "backfill"; readonly asked: Backfilled; readonly event: EventReceived | undefined }
  | { readonly topic: "refused"; readonly code: string };

const admitted = (sent: Sent, apart: number): Published => {
  const clientId = idIn(apart, sent.client);
  const { receivedAt } = sent;
  const { dedupKey, saleHash } = sent;
  const isKeyed = dedupKey !== undefined || saleHash !== undefined;
  // These doors need no order, and this one does.
  const given = JSON.parse(JSON.stringify(sentAs(isKeyed ? { ...sent, order: "unused" } : sent, clientId)));
  const admission = admitEvent(given, {
    source: sent.source ?? sent.door ?? (sent.isPixel ? "pixel" : "batch"),
    clientId,
    isClientSide: sent.isPixel,
    consentDefault: 0xff,
    segments: new Set(["MX", "VD", "DA", "HA", "IT", "NW"]),
    identify,
    texts: textsOf(JSON.stringify(given)),
    receivedAt,
    oldest: receivedAt - 700 * DAY_MS,
    newest: receivedAt + DAY_MS,
    address: null,
    userAgent: null,
    batchId: null,
  });
  if (admission.kind === "refused") return { topic: "refused", code: admission.refusal.code };
  const score = scores[sent.verdict];
  const keyed = { order_id: null, dedup_key: dedupKey ?? null, sale_hash: saleHash ?? null };
  const data = {
    event: { ...admission.data, ...(isKeyed && keyed), import_id: sent.file ?? null },
    enrichment: enrichment({ person: sent.person ?? null }),
    fraud: fraud({ score, band: sent.verdict }),
  };
  return { topic: "scored", data, at: admission.at, receivedAt };
};

/** The messages of one history, in its order. */
export const publishedBy = (history: History, apart: number): readonly Published[] => {
  const events = new Map<string, EventReceived>();
  return history.happenings.map((one): Published => {
    if (one.is === "look-up") return { topic: one.is, receivedAt: one.receivedAt };
    if (one.is === "undo") return { topic: one.is, claims: withdrawalsOf(one, history, apart, events) };
    if (one.is === "reprocess") return { topic: one.is, asked: one, clientId: idIn(apart, one.client) };
    if (one.is === "backfill") return { topic: one.is, asked: one, event: events.get(`${one.client}/${one.about}`) };
    if (one.is === "event") {
      const made = admitted(one, apart);
      const name = `${one.client}/${one.id}`;
      if (made.topic === "scored" && !events.has(name)) events.set(name, made.data.event);
      return made;
    }
    return { topic: "claims", data: claimOf(one, apart, events), at: one.receivedAt, receivedAt: one.receivedAt };
  });
};
export const decisionIdOf = (apart: number, id: string): string =>
  `00000000-0000-8000-9000-${`${apart}`.padStart(6, "0")}${id.replace(/\D/g, "").padStart(6, "0")}`;
/** The decisions of the undo of a file, in the order of its rows. */
const withdrawalsOf = (
  { client, file, receivedAt, id }: Undone,
  { happenings }: History,
  apart: number,
  events: ReadonlyMap<string, EventReceived>,
) => {
  const rows = happenings.flatMap((one) =>
    one.is === "event" && one.client === client && one.file === file ? one.id : [],
  );
  return [...new Set(rows)].flatMap((row, n) => {
    const event = events.get(`${client}/${row}`);
    if (event === undefined) return [];
    const data = decisionOnLine(idIn(apart, client), event, {
      ...{ decision_id: decisionIdOf(apart, `${id}${n}`), kind: "take_back", actor: "job_1", partner_id: null },
      ...{ campaign_id: null, reason: "undo", at: receivedAt, flags: [], review_from: 101, reject_from: 101 },
      withdraws: true,
    });
    return [{ topic: "claims", data, at: receivedAt, receivedAt } as const];
  });
};
const claimOf = (one: Decided, apart: number, events: ReadonlyMap<string, EventReceived>): Claim => {
  const clientId = idIn(apart, one.client);
  const said = {
    decision_id: decisionIdOf(apart, one.id),
    kind: one.kind,
    actor: "user:ana",
    partner_id: one.partner ?? null,
    campaign_id: null,
    reason: "agreed",
    at: one.receivedAt,
    flags: one.band === undefined ? [] : [{ code: `found_${one.id}`, weight: 50, evidence: "" }],
    review_from: one.band === "review" ? 50 : 101,
    reject_from: one.band === "reject" ? 50 : 101,
    keep: one.keep ?? null,
  };
  if (one.about !== undefined) return decisionOnLine(clientId, events.get(`${one.client}/${one.about}`)!, said);
  if (one.product === undefined) return decisionOnOrder(clientId, one.order!, said);
  const event = { event_id: said.decision_id, t: "purchase", order_id: one.order!, product_id: one.product };
  return decisionOnLine(clientId, event, said);
};

/** Whether a client belongs to the history with this number. */
export const isOfHistory =
  (apart: number) =>
  (clientId: number): boolean =>
    Math.floor(clientId / 10) === apart;

/**
 * The n-th happenings of all histories together, look-ups last. Look-ups that end a history all
 * come at the end, so that the log is read once for them.
 */
export const inSteps = (
  histories: readonly (readonly Published[])[],
): readonly (readonly (readonly [Published, number])[])[] => {
  // The rows of an undone file lie in several orders, which no partition has in common.
  const published = histories.map((all) =>
    all.flatMap((one): readonly Published[] => (one.topic === "undo" ? one.claims : [one])),
  );
  const longest = Math.max(...published.map((all) => all.length));
  const isLast = (all: readonly Published[], n: number): boolean => n === all.length - 1 && all[n]!.topic === "look-up";
  const steps = Array.from({ length: longest }, (_, n) =>
    published.flatMap((all, apart) => (n < all.length && !isLast(all, n) ? [[all[n]!, apart] as const] : [])),
  );
  const last = published.flatMap((all, apart) => (isLast(all, all.length - 1) ? [[all.at(-1)!, apart] as const] : []));
  return [...steps, last];
};

/** The content of the log at the end. */
export interface Written {
  readonly claims: readonly Claim[];
  readonly conversions: readonly Conversion[];
  readonly rows: readonly EventAttributed[];
  readonly entries: readonly LedgerEntry[];
  readonly letters: readonly { readonly clientId: number; readonly event: string; readonly code: string }[];
}

const newest = <Row>(rows: readonly Row[], idOf: (row: Row) => string, isNewer: (a: Row, b: Row) => boolean) => {
  const found = new Map<string, Row>();
  for (const row of rows) {
    const known = found.get(idOf(row));
    if (known === undefined || isNewer(row, known)) found.set(idOf(row), row);
  }
  return found;
};
/** The answers for each history; a record may appear more than once. */
export const readAnswers = (
  histories: readonly History[],
  published: readonly (readonly Published[])[],
  written: Written,
): readonly Answers[] => {
  const answers = histories.map((history, n) => {
    const refused: Record<string, string> = {};
    for (const [at, made] of published[n]!.entries()) {
      const one = history.happenings[at]!;
      if (made.topic === "refused" && one.is !== "look-up") refused[`${one.client}/${one.id}`] = made.code;
    }
    const contractOf = (id: number, version: number) =>
      Math.floor(id / 100) === n ? history.contracts[(id % 100) + version - 1] : undefined;
    const own = written.entries.filter(({ client_id }) => isOfHistory(n)(client_id));
    const broken = brokenSums(own, contractOf);
    return { lines: {} as Record<string, Line>, money: {} as Record<string, bigint>, refused, broken };
  });
  const place = (clientId: number) => ({ of: answers[Math.floor(clientId / 10)]!, client: clientId % 10 });
  for (const { clientId, event, code } of written.letters)
    place(clientId).of.refused[`${place(clientId).client}/${event}`] = code;

  const records = [
    ...newest(
      written.conversions,
      (one) => one.change_id,
      () => false,
    ).values(),
  ];
  const conversions = newest(
    records,
    (one) => one.conversion_id,
    (a, b) => a.version > b.version,
  );
  const reviews = new Map(
    records.filter(({ kind }) => kind === "credited").map((one) => [one.conversion_id, one.review]),
  );
  const released = new Set(records.filter(({ kind }) => kind === "released").map((one) => one.conversion_id));
  const byEvent = new Map<string, Conversion>();
  for (const one of conversions.values()) {
    const known = byEvent.get(one.event_id);
    const isOpen = one.refunded_minor < one.line_value_minor || one.kind !== "reversed";
    if (known === undefined || isOpen) byEvent.set(one.event_id, one);
  }
  const sales = new Set(
    written.claims.flatMap(({ kind, attributed }) => (kind === "conversion" ? attributed.event.event_id : [])),
  );
  const senders = new Map<string, string>();
  const entries = newest(
    written.entries,
    (one) => one.entry_id,
    () => false,
  );
  const payableFrom = new Map(
    written.entries.flatMap(({ conversion_id, conversion_version, commission_type, amount_minor, payable_from }) =>
      conversion_version === 1 && commission_type !== "tiered" && amount_minor !== 0n
        ? [[conversion_id, payable_from]]
        : [],
    ),
  );
  // What an order moves to a line, or away from it, may come long after the line was credited. So
  // may the end of its customer's months.
  for (const { conversion_id, payable_from, reason, inputs } of entries.values())
    if (reason === "first_sale_moved") payableFrom.set(conversion_id, null);
    else if (reason === "order_line_left")
      payableFrom.set(conversion_id, JSON.parse(inputs).earned_minor === "0" ? null : payable_from);
  const rows = newest(
    written.rows,
    (row) => row.event.event_id,
    (a, b) => a.version > b.version,
  );
  for (const { event, credit, merged_into, refunded_minor } of rows.values()) {
    senders.set(event.event_id, event.sender_event_id!);
    const isLine = sales.has(event.event_id) && merged_into === null;
    if (!isLine) continue;
    const { of, client: id } = place(event.client_id);
    const held = byEvent.get(event.event_id);
    const isTaken = held?.kind === "reversed" && held.refunded_minor === held.line_value_minor;
    const goods = {
      sold: event.value_minor ?? 0n,
      refunded: refunded_minor ?? -1n,
      currency: event.currency ?? "MXN",
      payableFrom: null,
    };
    of.lines[`${id}/${event.sender_event_id}`] =
      credit.partner_id === null || held === undefined
        ? { status: "open", partner: null, account: null, left: 0n, ...goods }
        : isTaken
          ? { status: "reversed", partner: null, account: null, left: 0n, ...goods }
          : {
              status: "credited",
              partner: held.partner_id,
              account:
                released.has(held.conversion_id) || reviews.get(held.conversion_id) === null ? "payable" : "held",
              left: held.line_value_minor - held.refunded_minor,
              ...goods,
              payableFrom: payableFrom.get(held.conversion_id) ?? null,
            };
  }
  for (const entry of entries.values()) {
    const { of, client: id } = place(entry.client_id);
    const event = conversions.get(entry.conversion_id)?.event_id;
    const what = entry.commission_type === "tiered" ? "tiers" : senders.get(event ?? "");
    for (const { account, amount_minor } of entry.lines)
      if (account !== "expense:client") {
        const month = `${entry.year}-${entry.month}`;
        const name = `${id}/${what} ${entry.partner_id} ${account.split(":")[0]} ${entry.currency} ${month}`;
        of.money[name] = (of.money[name] ?? 0n) - amount_minor;
      }
  }
  for (const { money } of answers) for (const name of Object.keys(money)) if (money[name] === 0n) delete money[name];
  return answers;
};
