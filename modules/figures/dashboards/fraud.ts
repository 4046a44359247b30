// The dashboard of fraud: scored events by band, reason, partner and day, and the money they hold
// back.
import type { PoolClient } from "pg";
import { toDecimal } from "../../../domain/money.ts";
import type { Days } from "../../base/days.ts";
import { clientsAsked, type Scope, type ScopedRead } from "../../base/work.ts";
import {
  type Bands,
  codesOf,
  type FraudMoney,
  type FraudQuestion,
  fraudMoney,
  moneyOfPartners,
  type PartnerMoney,
  partnersByRejects,
  type ScoredPartner,
  scoredDays,
} from "../reads/fraud-figures.ts";
import { clientsOfFigures, partnerNames } from "../reads/names.ts";
import { daysOf, type Span } from "../reads/periods.ts";
import { ratio } from "../reads/ratios.ts";
import { orAway } from "../reads/time-limit.ts";
import { type FigureStores, frameOf, stampFor } from "./frame.ts";

export interface FraudQuery extends Days {
  /** Undefined: every client of the caller. */
  readonly client_id?: number | undefined;
  readonly partner_id?: number | undefined;
  /** Undefined for the client's currency, or MXN. */
  readonly currency?: string | undefined;
}

const MOST_REASONS = 10;
/** A partner with fewer scored events than `least` is not listed. */
const PARTNERS = { least: 20, most: 50 };
const NO_EVENT: Bands = { ok: 0, review: 0, reject: 0 };

/** Throws Unavailable, and RefusalError as `spanOf` and `clientsAsked` do. */
export const fraudDashboard = async (stores: FigureStores, read: ScopedRead, query: FraudQuery) => {
  const { clickhouse } = stores;
  const frame = await frameOf(stores, query);
  const span = frame.periods.current;
  const { asked, money, currency } = await read((tx, scope) => storedMoney(tx, scope, query, span));
  const [{ all, byDay, filtered }, reasons, credits, partners, stamp] = await orAway(
    Promise.all([
      scoredDays(clickhouse, asked),
      codesOf(clickhouse, asked, "fraud_reason"),
      codesOf(clickhouse, asked, "credit_reason"),
      partnersByRejects(clickhouse, asked, PARTNERS),
      stampFor(stores, frame, asked.clients),
    ]),
  );
  const events = all.ok + all.review + all.reject;
  return {
    ...stamp,
    bands: bandShares(all, events),
    reasons: reasons.slice(0, MOST_REASONS).map((one) => ({ ...one, share: ratio(one.events, events) })),
    by_partner: await read((tx) => shownPartners(tx, asked, partners)),
    // The daily rollups do not keep why a click was filtered.
    filtered_clicks: filtered === 0 ? [] : [{ reason: "filtered", count: filtered }],
    bad_click_ids: credits.find(({ code }) => code === "bad_click_id")?.events ?? 0,
    series: daysOf(span, frame.now).map((day) => ({ day, ...(byDay.get(day) ?? NO_EVENT) })),
    money: moneyIn(money, currency),
  };
};

const storedMoney = async (
  tx: PoolClient,
  scope: Scope,
  { client_id, partner_id, currency }: FraudQuery,
  span: Span,
) => {
  const clients = clientsAsked(scope, client_id);
  const own = client_id === undefined ? undefined : (await clientsOfFigures(tx, clients))[0]?.currency;
  const asked: FraudQuestion = { clients, partner_id, span };
  return { asked, money: await fraudMoney(tx, asked), currency: currency ?? own ?? "MXN" };
};

const shownPartners = async (tx: PoolClient, asked: FraudQuestion, partners: readonly ScoredPartner[]) => {
  const ids = partners.map(({ partner_id }) => partner_id);
  const names = await partnerNames(tx, ids);
  const earned = await moneyOfPartners(tx, asked, ids);
  return partners.map(({ scored, ...partner }) => {
    const money = earned.find((one) => one.partner_id === partner.partner_id && one.client_id === partner.client_id);
    const conversions = money?.conversions ?? 0;
    return {
      ...partner,
      name: names.get(partner.partner_id) ?? null,
      conversions,
      reject_share: ratio(partner.reject, scored),
      conversion_rate: ratio(conversions, partner.clicks),
      held: heldIn(money),
    };
  });
};

const heldIn = (money: PartnerMoney | undefined) =>
  (money?.held ?? []).map((sum) => ({ ...sum, amount: toDecimal(sum.amount, sum.currency) }));

/** Shares of four decimals that add up to one. */
const bandShares = ({ ok, review, reject }: Bands, events: number) => {
  const [ofReview, ofReject] = [ratio(review, events), ratio(reject, events)];
  const rest = ofReview === null || ofReject === null ? null : Math.round((1 - ofReview - ofReject) * 1e4) / 1e4;
  return [
    { band: "ok", events: ok, share: rest },
    { band: "review", events: review, share: ofReview },
    { band: "reject", events: reject, share: ofReject },
  ];
};

const moneyIn = (sums: readonly FraudMoney[], currency: string) => {
  const none = { currency, held: 0n, rejected_value: 0n, released: 0n, reversed_for_fraud: 0n };
  const others = sums.filter((one) => one.currency !== currency).map(shownMoney);
  return { ...shownMoney(sums.find((one) => one.currency === currency) ?? none), other_currencies: others };
};

const shownMoney = ({ currency, held, rejected_value, released, reversed_for_fraud }: FraudMoney) => ({
  held: toDecimal(held, currency),
  rejected_value: toDecimal(rejected_value, currency),
  released: toDecimal(released, currency),
  reversed_for_fraud: toDecimal(reversed_for_fraud, currency),
  currency,
});
