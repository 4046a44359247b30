// The routes of how fresh figures are, and of fraud.
import { toDecimal } from "../../../../domain/money.ts";
import { orUnavailable } from "../../../../infra/http/problem.ts";
import { freshnessOf } from "../../../../modules/figures/reads/data-freshness.ts";
import {
  type Bands,
  codesOf,
  type FraudMoney,
  fraudMoney,
  moneyOfPartners,
  partnersByRejects,
  scoredDays,
} from "../../../../modules/figures/reads/fraud-figures.ts";
import { clientsOfFigures, partnerNames } from "../../../../modules/figures/reads/names.ts";
import { daysOf } from "../../../../modules/figures/reads/periods.ts";
import { ratio } from "../../../../modules/figures/reads/ratios.ts";
import { waitingMarks } from "../../../../modules/figures/rollups/rollup-marks.ts";
import { newestEvents } from "../../../../modules/figures/rollups/rollup-reads.ts";
import * as contracts from "../../contract/figures/system-figures.ts";
import { FIGURES_MS, frameOf, orAway, stampFor } from "../../request/figures.ts";
import { checkFilter } from "../../request/filter.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

type Ports = Pick<ApiPorts, "pool" | "clickhouse" | "positions">;
const REASONS = 10;
const PARTNERS = { least: 20, most: 50 };
const NO_EVENT: Bands = { ok: 0, review: 0, reject: 0 };

export const routes = (ports: Ports): readonly Route[] => [
  route(contracts.readFreshness, async (ask) => {
    const { client_id } = ask.query;
    await checkFilter(ask, client_id);
    const clients = await ask.read(async (_tx, scope) => (client_id === undefined ? scope.clients : [client_id]));
    const [marks, positions, newest] = await Promise.all([
      waitingMarks(ports.pool).catch(orUnavailable("the marks of rollups cannot be read now", 2)),
      ports.positions.latest(),
      orAway(newestEvents(ports.clickhouse, clients, FIGURES_MS)),
    ]);
    return { body: freshnessOf({ marks, positions, newest, now: Date.now() }) };
  }),

  route(contracts.readFraud, async (ask) => {
    const { client_id, partner_id } = ask.query;
    await checkFilter(ask, client_id);
    const frame = await frameOf(ports, ask.query);
    const span = frame.periods.current;
    const { asked, money, currency } = await ask.read(async (tx, scope) => {
      const clients = client_id === undefined ? scope.clients : [client_id];
      const own = client_id === undefined ? undefined : (await clientsOfFigures(tx, clients))[0]?.currency;
      const asked = { clients, partner_id, span };
      return { asked, money: await fraudMoney(tx, asked), currency: ask.query.currency ?? own ?? "MXN" };
    });
    const { clickhouse } = ports;
    const [{ all, byDay, filtered }, reasons, credits, partners, stamp] = await orAway(
      Promise.all([
        scoredDays(clickhouse, asked),
        codesOf(clickhouse, asked, "fraud_reason"),
        codesOf(clickhouse, asked, "credit_reason"),
        partnersByRejects(clickhouse, asked, PARTNERS),
        stampFor(ports, frame, asked.clients),
      ]),
    );
    const ids = partners.map((one) => one.partner_id);
    const { names, earned } = await ask.read(async (tx) => ({
      names: await partnerNames(tx, ids),
      earned: await moneyOfPartners(tx, asked, ids),
    }));
    const events = all.ok + all.review + all.reject;
    return {
      body: {
        ...stamp,
        bands: bandShares(all, events),
        reasons: reasons.slice(0, REASONS).map((one) => ({ ...one, share: ratio(one.events, events) })),
        by_partner: partners.map(({ scored, ...one }) => {
          const own = earned.find((money) => money.partner_id === one.partner_id && money.client_id === one.client_id);
          const conversions = own?.conversions ?? 0;
          const held = (own?.held ?? []).map((sum) => ({ ...sum, amount: toDecimal(sum.amount, sum.currency) }));
          return {
            ...one,
            name: names.get(one.partner_id) ?? null,
            conversions,
            reject_share: ratio(one.reject, scored),
            conversion_rate: ratio(conversions, one.clicks),
            held,
          };
        }),
        // Why a click was filtered is not kept by the day.
        filtered_clicks: filtered === 0 ? [] : [{ reason: "filtered", count: filtered }],
        bad_click_ids: credits.find(({ code }) => code === "bad_click_id")?.events ?? 0,
        series: daysOf(span, frame.now).map((day) => ({ day, ...(byDay.get(day) ?? NO_EVENT) })),
        money: moneyIn(money, currency),
      },
    };
  }),
];

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

const moneyIn = (found: readonly FraudMoney[], currency: string) => {
  const none = { currency, held: 0n, rejected_value: 0n, released: 0n, reversed_for_fraud: 0n };
  const shown = (one: FraudMoney) => ({
    held: toDecimal(one.held, one.currency),
    rejected_value: toDecimal(one.rejected_value, one.currency),
    released: toDecimal(one.released, one.currency),
    reversed_for_fraud: toDecimal(one.reversed_for_fraud, one.currency),
    currency: one.currency,
  });
  const others = found.filter((one) => one.currency !== currency).map(shown);
  return { ...shown(found.find((one) => one.currency === currency) ?? none), other_currencies: others };
};
