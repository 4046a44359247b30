// Lists lines of credited orders and their earnings, for a partner or a campaign.
import { derive } from "../../../domain/hmac.ts";
import { toDecimal } from "../../../domain/money.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { pickColumns } from "../../../infra/clickhouse/columns.ts";
import { bind, type Condition, cond, readRows, scopeOf } from "../../../infra/clickhouse/query.ts";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { eventReads } from "../../../sinks/analytics/table.ts";
import type { Span } from "./periods.ts";
import { orAway } from "./time-limit.ts";

export interface OrderFilter {
  readonly span: Span;
  readonly client_id?: number | undefined;
  readonly partner_id?: number | undefined;
  readonly campaign_id?: number | undefined;
  readonly status?: "credited" | "reversed" | undefined;
  /** A partner's own word for `on_hold` is `under_review`. */
  readonly commission_status?: string | undefined;
  readonly segment?: string | undefined;
  readonly event_type?: string | undefined;
  /** Salts the hash of a receipt: without it, values could be guessed until the hash matches. */
  readonly receiptKey: Buffer;
}
export type ShownRow = Readonly<Record<string, any>>;

/** One key for good: the hash of a receipt that was shown in a dispute can be made again. */
export const receiptKeyOf = (keyring: Pick<Keyring, "pepper">): Buffer => derive(keyring.pepper, "api.receipt");

const conditionsOf = ({ span, ...filter }: Omit<OrderFilter, "receiptKey">): readonly Sql[] => [
  sql`c.occurred_at >= ${new Date(span.from)} and c.occurred_at < ${new Date(span.to)}`,
  ...(
    [
      [sql`c.client_id`, filter.client_id],
      [sql`c.partner_id`, filter.partner_id],
      [sql`c.campaign_id`, filter.campaign_id],
      [sql`c.status`, filter.status],
      [sql`m.status`, filter.commission_status === "under_review" ? "on_hold" : filter.commission_status],
      [sql`c.segment`, filter.segment],
      [sql`c.event_type`, filter.event_type],
    ] as const
  ).flatMap(([column, value]) => (value === undefined ? [] : [sql`${column} = ${value}`])),
];

/** Amounts are minor units until `shownOrders` formats them. */
export const orderRows = (filter: OrderFilter): RowsQuery => ({
  columns: {
    id: sql`c.conversion_id`,
    client_id: sql`c.client_id`,
    order_id: sql`c.order_id`,
    day: sql`to_char(c.occurred_at at time zone 'America/Mexico_City', 'YYYY-MM-DD')`,
    occurred_at: sql`c.occurred_at`,
    event_type: sql`c.event_type`,
    segment: sql`c.segment`,
    campaign_id: sql`c.campaign_id`,
    campaign: sql`(select name from campaigns where campaign_id = c.campaign_id order by version desc limit 1)`,
    link_code: sql`(select code from links where campaign_id = c.campaign_id and partner_id = c.partner_id
      order by link_id desc, version desc limit 1)`,
    partner_id: sql`c.partner_id`,
    partner: sql`(select name from partners where partner_id = c.partner_id order by version desc limit 1)`,
    status: sql`c.status`,
    refund: sql`case when c.refunded_minor = 0 then 'none' when c.refunded_minor < c.value_minor then 'partial'
      else 'full' end`,
    commission: sql`m.amount_minor`,
    currency: sql`c.currency`,
    commission_status: sql`m.status`,
    payable_from: sql`m.payable_from`,
    reason: sql`coalesce(c.reason, m.reason)`,
    receipt_hash: sql`encode(sha256(${filter.receiptKey}::bytea || convert_to(m.receipt::text, 'UTF8')), 'hex')`,
    product_id: sql`c.product_id`,
    quantity: sql`c.quantity`,
    value: sql`c.value_minor`,
    refunded: sql`c.refunded_minor`,
    rate: sql`trim_scale((m.receipt -> 'inputs' ->> 'rate_ppm')::numeric / 10000)::text`,
    contract_version: sql`m.contract_version`,
    fraud: sql`jsonb_build_object('event_id', c.event_id, 'band', coalesce((select s.fraud_band from product_sales s
      where s.client_id = c.client_id and s.event_id = c.event_id), 'ok'))`,
  },
  from: sql`conversions c left join commissions m on m.client_id = c.client_id
    and m.conversion_id = c.conversion_id`,
  tenant: sql`c.client_id`,
  where: conditionsOf(filter),
  sorts: {
    occurred_at: { by: sql`c.occurred_at`, type: "timestamptz" },
    commission: { by: sql`coalesce(m.amount_minor, 0)`, type: "bigint" },
    value: { by: sql`c.value_minor`, type: "bigint" },
  },
  id: { by: sql`c.conversion_id`, type: "text" },
});

const AMOUNTS = ["commission", "value", "refunded"] as const;

/** Formats the amounts of rows for people. */
export const shownOrders = (rows: readonly ShownRow[]): readonly ShownRow[] =>
  rows.map((row) => ({
    ...row,
    ...Object.fromEntries(
      AMOUNTS.flatMap((name) =>
        typeof row[name] === "bigint" ? [[name, toDecimal(row[name], row.currency)] as const] : [],
      ),
    ),
  }));

/**
 * Rows as the partner may see them: they say that a line is under review, but not why, because the
 * reasons would reveal what the fraud checks look for.
 */
export const shownToPartner = (rows: readonly ShownRow[]): readonly ShownRow[] =>
  shownOrders(rows).map((row) =>
    row.commission_status === "on_hold" ? { ...row, commission_status: "under_review", reason: null } : row,
  );

const HOUR_MS = 3_600_000;

const inHoursOf = (rows: readonly ShownRow[]): Condition => {
  const hours = new Set(rows.map(({ occurred_at }) => Math.floor(occurred_at / HOUR_MS) * HOUR_MS));
  const texts = [...hours].map((at) => new Date(at).toISOString().slice(0, 19).replace("T", " "));
  return cond`toStartOfHour(ts) in ${bind("Array(DateTime('UTC'))", texts)}`;
};

const scoresOf = async (clickhouse: Clickhouse, rows: readonly ShownRow[], where: readonly Condition[]) => {
  if (rows.length === 0) return [];
  const ids = rows.map(({ fraud }) => fraud.event_id);
  const stored = readRows(clickhouse, scopeOf(...new Set(rows.map(({ client_id }) => client_id))), {
    from: "events_current",
    columns: pickColumns(eventReads, "event_id", "fraud_score", "fraud_band", "fraud_reasons"),
    where: [...where, cond`event_id in ${bind("Array(UUID)", ids)}`],
  });
  return orAway(stored);
};

/**
 * Adds scores and their reasons, which are stored with the events. Reads only the hours of these
 * rows, and then the few whose money is not dated by the sender's time. Throws Unavailable.
 */
export const withFraud = async (clickhouse: Clickhouse, rows: readonly ShownRow[]): Promise<readonly ShownRow[]> => {
  const asked = rows.filter(({ fraud, client_id, occurred_at }) => fraud && client_id && occurred_at);
  if (asked.length === 0) return rows;
  const scores = new Map((await scoresOf(clickhouse, asked, [inHoursOf(asked)])).map((one) => [one.event_id, one]));
  const others = asked.filter(({ fraud }) => !scores.has(fraud.event_id));
  for (const one of await scoresOf(clickhouse, others, [])) scores.set(one.event_id, one);
  return rows.map((row) => {
    const score = scores.get(row.fraud?.event_id);
    if (row.fraud === undefined) return row;
    return {
      ...row,
      fraud:
        score === undefined
          ? { score: null, band: row.fraud.band, reasons: [] }
          : { score: score.fraud_score, band: score.fraud_band, reasons: JSON.parse(score.fraud_reasons) },
    };
  });
};
