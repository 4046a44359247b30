// Fraud in figures: bands, reasons and partners as the rollups say, money as the ledger says.
import type { PoolClient } from "pg";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { bind, type Condition, cond, count, readRows, scopeOf, text } from "../../infra/clickhouse/query.ts";
import { sql } from "../../infra/postgres/sql.ts";
import { within } from "../rollups/rollup-reads.ts";
import { clickColumns, clicksThatCount } from "./click-figures.ts";
import type { Span } from "./periods.ts";

export interface Asked {
  readonly clients: readonly number[];
  readonly partner_id?: number | undefined;
  readonly span: Span;
}
export interface Bands {
  readonly ok: number;
  readonly review: number;
  readonly reject: number;
}

const inScope = ({ partner_id, span }: Asked): readonly Condition[] => [
  ...within("day", span),
  ...(partner_id === undefined ? [] : [cond`partner_id = ${bind("UInt32", partner_id)}`]),
];
const scored = { events: count("sum(events)"), review: count("sum(review)"), reject: count("sum(rejected)") };
const bands = ({ events, review, reject }: { events: number; review: number; reject: number }): Bands => ({
  ok: events - review - reject,
  review,
  reject,
});

/** Events of a span by band; each event is scored. */
export const bandsOf = async (clickhouse: Clickhouse, asked: Asked): Promise<Bands> => {
  if (asked.clients.length === 0) return { ok: 0, review: 0, reject: 0 };
  const rows = await readRows(clickhouse, scopeOf(...asked.clients), {
    from: "rollups",
    columns: scored,
    where: inScope(asked),
  });
  return bands(rows[0] ?? { events: 0, review: 0, reject: 0 });
};

/** Of each day with an event, by its text. */
export const bandsByDay = async (clickhouse: Clickhouse, asked: Asked): Promise<ReadonlyMap<string, Bands>> => {
  if (asked.clients.length === 0) return new Map();
  const rows = await readRows(clickhouse, scopeOf(...asked.clients), {
    from: "rollups",
    columns: { on: text("toDate(bucket, 'America/Mexico_City')"), ...scored },
    where: inScope(asked),
    groupBy: ["on"],
  });
  return new Map(rows.map((row) => [row.on, bands(row)]));
};

/** Events with a code of this dimension, the most frequent codes first. */
export const codesOf = async (
  clickhouse: Clickhouse,
  asked: Asked,
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
 * Partners with at least `least` scored events at a client, those with the largest share of
 * rejected ones first.
 */
export const partnersByRejects = async (
  clickhouse: Clickhouse,
  asked: Asked,
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

/** Clicks that were filtered before they counted. */
export const filteredClicks = async (clickhouse: Clickhouse, asked: Asked): Promise<number> => {
  if (asked.clients.length === 0) return 0;
  const [row] = await readRows(clickhouse, scopeOf(...asked.clients), {
    from: "rollups",
    columns: { filtered: clickColumns.filtered },
    where: [...inScope(asked), ...clicksThatCount([])],
  });
  return row?.filtered ?? 0;
};

/** Money in one currency, in minor units. */
export interface FraudMoney {
  readonly currency: string;
  readonly held: bigint;
  readonly rejected_value: bigint;
  readonly released: bigint;
  readonly reversed_for_fraud: bigint;
}

const money = ({ clients, partner_id, span }: Asked) => {
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
      select coalesce(currency, 'MXN') as currency, sum(coalesce(value_minor, 0)) as refused from product_sales
      where credit_reason = 'fraud_rejected' and t <> 'refund' and merged_into is null
        and client_id = any (${clients}::int[]) and ${partner} and ${isInSpan}
      group by 1
    )
    select currency, coalesce(held, 0)::text as held, coalesce(refused, 0)::text as rejected_value,
      coalesce(released, 0)::text as released, coalesce(reversed, 0)::text as reversed_for_fraud
    from of_ledger full join of_sales using (currency) order by currency`;
};

/**
 * What is held now, and what was refused, released or taken back for fraud of sales of the span, by
 * currency.
 */
export const fraudMoney = async (tx: PoolClient, asked: Asked): Promise<readonly FraudMoney[]> => {
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

/** Credited conversions of the span and what is held now, of these partners at each client. */
export const moneyOfPartners = async (
  tx: PoolClient,
  { clients, span }: Asked,
  partners: readonly number[],
): Promise<readonly PartnerMoney[]> => {
  const { rows } = await tx.query(sql`
    with credited as (
      select partner_id, client_id, count(*)::int as conversions from conversions
      where partner_id = any (${partners}::int[]) and client_id = any (${clients}::int[]) and status = 'credited'
        and occurred_at >= ${new Date(span.from)} and occurred_at < ${new Date(span.to)}
      group by 1, 2
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
