// Reads fraud figures: bands, reasons and partners from the rollups, money from the ledger.
import type { PoolClient } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { bind, type Condition, cond, count, readRows, scopeOf, text } from "../../../infra/clickhouse/query.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import { ofWholeDays } from "../money-days/money-days.ts";
import { within } from "../rollups/rollup-reads.ts";
import type { Span } from "./periods.ts";

export interface FraudQuestion {
  readonly clients: readonly number[];
  readonly partner_id?: number | undefined;
  readonly span: Span;
}
export interface Bands {
  readonly ok: number;
  readonly review: number;
  readonly reject: number;
}

const inScope = ({ partner_id, span }: FraudQuestion): readonly Condition[] => [
  ...within("day", span),
  ...(partner_id === undefined ? [] : [cond`partner_id = ${bind("UInt32", partner_id)}`]),
];
const scored = { events: count("sum(events)"), review: count("sum(review)"), reject: count("sum(rejected)") };
const bands = ({ events, review, reject }: { events: number; review: number; reject: number }): Bands => ({
  ok: events - review - reject,
  review,
  reject,
});

/** Counts the events of a span by band; every event is scored. */
export const bandsOf = async (clickhouse: Clickhouse, asked: FraudQuestion): Promise<Bands> => {
  if (asked.clients.length === 0) return NO_EVENT;
  const rows = await readRows(clickhouse, scopeOf(...asked.clients), {
    from: "rollups",
    columns: scored,
    where: inScope(asked),
  });
  return bands(rows[0] ?? { events: 0, review: 0, reject: 0 });
};
const NO_EVENT: Bands = { ok: 0, review: 0, reject: 0 };

export interface ScoredDays {
  readonly all: Bands;
  /** Bands of each day with an event; days are YYYY-MM-DD. */
  readonly byDay: ReadonlyMap<string, Bands>;
  /**
   * Clicks that were filtered before they counted. Clicks that the pixel saw on a page are not
   * among them.
   */
  readonly filtered: number;
}
/** Counts the events of a span by band and day, in one query. */
export const scoredDays = async (clickhouse: Clickhouse, asked: FraudQuestion): Promise<ScoredDays> => {
  if (asked.clients.length === 0) return { all: NO_EVENT, byDay: new Map(), filtered: 0 };
  const rows = await readRows(clickhouse, scopeOf(...asked.clients), {
    from: "rollups",
    columns: {
      on: text("toDate(bucket, 'America/Mexico_City')"),
      ...scored,
      filtered: count("sumIf(events, event_type = 'click_filtered' and source != 'pixel')"),
    },
    where: inScope(asked),
    groupBy: ["on"],
  });
  const sum = (name: "events" | "review" | "reject" | "filtered"): number =>
    rows.reduce((all, row) => all + row[name], 0);
  return {
    all: bands({ events: sum("events"), review: sum("review"), reject: sum("reject") }),
    byDay: new Map(rows.map((row) => [row.on, bands(row)])),
    filtered: sum("filtered"),
  };
};

/** Counts the events with each code of this dimension, the most frequent codes first. */
export const codesOf = async (
  clickhouse: Clickhouse,
  asked: FraudQuestion,
  dimension: "fraud_reason" | "credit_reason",
): Promise<readonly { readonly code: string; readonly events: number }[]> => {
  if (asked.clients.length === 0) return [];
  const rows = await readRows(clickhouse, scopeOf(...asked.clients), {
    from: "rollup_dimensions",
    columns: { code: text("value"), found: count("sum(events)") },
    where: [...inScope(asked), cond`dimension = ${bind("String", dimension)} and events > 0`],
    groupBy: ["code"],
    orderBy: ["found desc", "code"],
    limit: 50,
  });
  return rows.map(({ code, found }) => ({ code, events: found }));
};

export interface ScoredPartner {
  readonly partner_id: number;
  readonly client_id: number;
  readonly scored: number;
  readonly clicks: number;
  readonly review: number;
  readonly reject: number;
}

/**
 * Returns partners with at least `least` scored events at a client, those with the largest share of
 * rejected events first.
 */
export const partnersByRejects = async (
  clickhouse: Clickhouse,
  asked: FraudQuestion,
  { least, most }: { readonly least: number; readonly most: number },
): Promise<readonly ScoredPartner[]> => {
  if (asked.clients.length === 0) return [];
  const rows = await readRows(clickhouse, scopeOf(...asked.clients), {
    from: "rollups",
    columns: {
      partner: count("partner_id"),
      client: count("client_id"),
      ...scored,
      all: count("sum(clicks)"),
      again: count("sum(repeats)"),
    },
    where: [...inScope(asked), cond`partner_id > 0`],
    groupBy: ["partner", "client"],
    orderBy: [`if(sum(events) < ${Math.trunc(least)}, -1, sum(rejected) / sum(events)) desc`, "partner", "client"],
    limit: most,
  });
  return rows.flatMap(({ partner, client, events, review, reject, all, again }) =>
    events < least
      ? []
      : [{ partner_id: partner, client_id: client, scored: events, clicks: all - again, review, reject }],
  );
};

/** Money in one currency, in minor units. */
export interface FraudMoney {
  readonly currency: string;
  readonly held: bigint;
  readonly rejected_value: bigint;
  readonly released: bigint;
  readonly reversed_for_fraud: bigint;
}

const money = ({ clients, partner_id, span }: FraudQuestion) => {
  const partner = partner_id === undefined ? sql`true` : sql`partner_id = ${partner_id}`;
  const isInSpan = sql`occurred_at >= ${new Date(span.from)} and occurred_at < ${new Date(span.to)}`;
  return sql`
    with moved as (
      select currency, held_minor, amount_minor, ${isInSpan} as is_in_span from ledger_entries
      where held_minor <> 0 and client_id = any (${clients}::int[]) and ${partner}
    ), of_ledger as (
      select currency, sum(held_minor) as held,
        coalesce(-sum(held_minor) filter (where is_in_span and held_minor < 0 and amount_minor = 0), 0) as released,
        coalesce(-sum(held_minor) filter (where is_in_span and held_minor < 0 and amount_minor < 0), 0) as reversed
      from moved group by 1
    ), of_sales as (
      select currency, sum(amount_minor) as refused from money_days
      where ${ofWholeDays("sales", span)} and reason = 'fraud_rejected'
        and client_id = any (${clients}::int[]) and ${partner}
      group by 1 having sum(n) <> 0
    )
    select currency, coalesce(held, 0)::text as held, coalesce(refused, 0)::text as rejected_value,
      coalesce(released, 0)::text as released, coalesce(reversed, 0)::text as reversed_for_fraud
    from of_ledger full join of_sales using (currency) order by currency`;
};

/**
 * Returns by currency the commissions that are held now, and the commissions of the span's sales
 * that were refused, released or reversed because of fraud.
 */
export const fraudMoney = async (tx: PoolClient, asked: FraudQuestion): Promise<readonly FraudMoney[]> => {
  const { rows } = await tx.query(money(asked));
  return rows.map(({ currency, ...amounts }) => ({
    currency,
    ...(Object.fromEntries(
      Object.entries(amounts as Readonly<Record<string, string>>).map(([name, amount]) => [name, BigInt(amount)]),
    ) as Omit<FraudMoney, "currency">),
  }));
};

export interface PartnerMoney {
  readonly partner_id: number;
  readonly client_id: number;
  readonly conversions: number;
  readonly held: readonly { readonly currency: string; readonly amount: bigint }[];
}

/**
 * Returns the credited conversions of the span and the commissions held now, for these partners at
 * each client.
 */
export const moneyOfPartners = async (
  tx: PoolClient,
  { clients, span }: FraudQuestion,
  partners: readonly number[],
): Promise<readonly PartnerMoney[]> => {
  const { rows } = await tx.query(sql`
    with credited as (
      select partner_id, client_id, sum(n)::int as conversions from money_days
      where partner_id = any (${partners}::int[]) and client_id = any (${clients}::int[]) and status = 'credited'
        and ${ofWholeDays("conversions", span)}
      group by 1, 2 having sum(n) <> 0
    ), held as (
      select partner_id, client_id, jsonb_agg(jsonb_build_object('currency', currency, 'amount', amount)
        order by currency) as held
      from (select partner_id, client_id, currency, sum(held_minor)::text as amount from ledger_entries
        where held_minor <> 0 and partner_id = any (${partners}::int[]) and client_id = any (${clients}::int[])
        group by 1, 2, 3 having sum(held_minor) <> 0) as sums group by 1, 2
    )
    select partner_id, client_id, coalesce(conversions, 0) as conversions, coalesce(held, '[]') as held
    from credited full join held using (partner_id, client_id)`);
  return rows.map((row) => ({
    ...row,
    held: row.held.map((one: { currency: string; amount: string }) => ({ ...one, amount: BigInt(one.amount) })),
  }));
};
