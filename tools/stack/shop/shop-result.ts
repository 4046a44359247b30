// The results of the newest visits of the demo shop, as the stores have them.
import type pg from "pg";
import { toDecimal } from "../../../domain/money.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { cond, minor, optional, readRows, scopeOf, text } from "../../../infra/clickhouse/query.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";

const SHOWN = 25;

type Row = readonly (string | null)[];
export interface ShopResult {
  /** Time, event, value and result: the credited partner, or the reason for no credit. */
  readonly events: readonly Row[];
  /** Order, kind of entry, partner, amount, and how it was computed. */
  readonly commissions: readonly Row[];
}

interface BookedLine {
  readonly order_id: string | null;
  readonly kind: string;
  readonly partner: string | null;
  readonly amount_minor: bigint;
  readonly currency: string;
  readonly formula: string | null;
}

const eventsOf = async (clickhouse: Clickhouse, clientId: number): Promise<readonly Row[]> => {
  const rows = await readRows(clickhouse, scopeOf(clientId), {
    from: "events_current",
    columns: {
      at: text("formatDateTime(events_current.received_at, '%H:%i:%S')"),
      t: text("if(t = 'custom', coalesce(custom_name, t), t)"),
      value: optional(minor("value_minor")),
      currency: optional(text("currency")),
      status: text("credit_status"),
      method: optional(text("credit_method")),
      reason: optional(text("credit_reason")),
      filtered: text("if(source = 'link', JSONExtractString(props, 'filtered'), '')"),
    },
    where: [cond`source in ('pixel', 'link')`, cond`events_current.received_at > now() - interval 1 hour`],
    orderBy: ["events_current.received_at desc"],
    limit: SHOWN,
  });
  return rows.map(({ at, t, value, currency, status, method, reason, filtered }) => [
    at,
    t,
    value === null || currency === null ? null : `${toDecimal(value, currency)} ${currency}`,
    // The click id still proves a later sale (docs/links.md), but the visit itself is not credited.
    filtered !== ""
      ? `not counted as a click: ${filtered}`
      : [status, method ?? reason].filter((word) => word !== null && word !== "").join(": "),
  ]);
};

const commissionsOf = async (pool: pg.Pool, clientId: number): Promise<readonly Row[]> => {
  const { rows } = await transaction(
    pool,
    [clientId],
    (tx) =>
      tx.query<BookedLine>(sql`select order_id, entry.kind, partner.name as partner, entry.amount_minor, entry.currency,
        entry.formula
        from ledger_entries entry join conversions using (client_id, conversion_id)
        left join partners partner on partner.partner_id = entry.partner_id
        where client_id = ${clientId} and order_id like 'shop-%'
        order by entry.occurred_at desc limit ${SHOWN}`),
    { isReadOnly: true },
  );
  return rows.map(({ order_id, kind, partner, amount_minor, currency, formula }) => [
    order_id,
    kind,
    partner,
    `${toDecimal(amount_minor, currency)} ${currency}`,
    formula,
  ]);
};

/** The newest first. */
export const happened = async (clickhouse: Clickhouse, pool: pg.Pool, clientId: number): Promise<ShopResult> => {
  const [events, commissions] = await Promise.all([eventsOf(clickhouse, clientId), commissionsOf(pool, clientId)]);
  return { events, commissions };
};
