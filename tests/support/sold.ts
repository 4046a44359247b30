// Sales, clicks and earnings as the sinks store them, for tests of figures. It runs the real sinks
// without a pipeline.

import type pg from "pg";
import type { Clickhouse } from "../../infra/clickhouse/client.ts";
import { computeWaiting } from "../../modules/figures/rollups/compute-waiting.ts";
import type { Conversion, EventAttributed, LedgerEntry } from "../../schemas/generated.ts";
import { eventRows } from "../../sinks/analytics/rows.ts";
import { events } from "../../sinks/analytics/table.ts";
import { conversionRows } from "../../sinks/conversions/rows.ts";
import { conversions } from "../../sinks/conversions/table.ts";
import { ledgerRows } from "../../sinks/ledger/rows.ts";
import { ledger } from "../../sinks/ledger/table.ts";
import { saleRows } from "../../sinks/product-sales/rows.ts";
import { productSales } from "../../sinks/product-sales/table.ts";
import { clickhouseStore } from "../../sinks/stores/clickhouse.ts";
import { postgresStore } from "../../sinks/stores/postgres.ts";
import { topics } from "../../topics.ts";
import { attributed, clickCredit, conversion, recorded } from "./builders.ts";
import { entry } from "./money-builders.ts";

export interface Stores {
  readonly pool: pg.Pool;
  readonly clickhouse: Clickhouse;
}
let writes = 0;

/** Writes the rows and the marks of their minutes, as the sinks of events do. */
export const storeEvents = async ({ pool, clickhouse }: Stores, ...given: readonly EventAttributed[]) => {
  const tenants = [...new Set(given.map(({ event }) => event.client_id))];
  const batch = { tenants, token: `sold-${process.pid}-${Date.now()}-${++writes}` };
  const read = given.map((data) => recorded(topics.eventsAttributed, data, { at: data.event.ts }));
  const rows = read.flatMap(eventRows);
  await clickhouseStore(clickhouse).within(batch, (write) => events.write(rows, write));
  await postgresStore(pool).within(batch, async (write) => {
    const { of, into } = events.marks!;
    await into.write(of(rows), write);
    await productSales.write(read.flatMap(saleRows), write);
  });
};

export const storeMoney = async (
  { pool }: Stores,
  changed: readonly Conversion[],
  entries: readonly LedgerEntry[],
): Promise<void> => {
  const tenants = [...new Set([...changed, ...entries].map(({ client_id }) => client_id))];
  await postgresStore(pool).within({ tenants, token: "" }, async (write) => {
    await conversions.write(
      changed.flatMap((data) => conversionRows(recorded(topics.conversions, data, { at: data.occurred_at }))),
      write,
    );
    await ledger.write(
      entries.flatMap((data) => ledgerRows(recorded(topics.ledgerEntries, data))),
      write,
    );
  });
};

/** Waits until no minute is left to compute. */
export const settleRollups = async ({ pool, clickhouse }: Stores): Promise<void> => {
  await computeWaiting(pool, clickhouse, 50);
};

export interface SoldLine {
  readonly client_id: number;
  readonly partner_id: number;
  readonly campaign_id: number | null;
  /** Identifies the line among those of its client. */
  readonly n: number;
  readonly at: number;
  readonly order_id: string;
  readonly value: bigint;
  readonly commission: bigint;
  readonly refunded?: bigint;
  readonly taken_back?: bigint;
  readonly currency?: string;
  readonly segment?: string | null;
  readonly t?: "purchase" | "lead_submit";
  readonly isHeld?: boolean;
}

const uuid = (client: number, n: number): string =>
  `00000000-0000-8000-8${(client % 4_096).toString(16).padStart(3, "0")}-${n.toString(16).padStart(12, "0")}`;
const balanced = (amount: bigint, isHeld: boolean) => [
  { account: "expense:client", amount_minor: amount },
  { account: isHeld ? "held:partner" : "payable:partner", amount_minor: -amount },
];

/** Stores a credited line with its event, its conversion and its entries in the ledger. */
export const storeLine = async (stores: Stores, line: SoldLine): Promise<void> => {
  const { client_id, partner_id, campaign_id, n, at, order_id, value, commission } = line;
  const { refunded = 0n, taken_back = 0n, currency = "MXN", segment = "MX", t = "purchase", isHeld = false } = line;
  const event_id = uuid(client_id, n);
  const ids = { conversion_id: `cnv_${client_id}_${n}`, client_id, partner_id, campaign_id, currency, segment };
  const event = { client_id, event_id, t, ts: at, order_id, currency, product_line: segment, value_minor: value };
  await storeEvents(
    stores,
    attributed(event, { credit: clickCredit({ partner_id, campaign_id }), refunded_minor: refunded }),
  );
  const sold = { ...ids, event_type: t, order_id, occurred_at: at };
  const of = conversion({
    ...sold,
    change_id: `chg_${client_id}_${n}`,
    event_id,
    cause_event_id: event_id,
    value_minor: value,
    line_value_minor: value,
    kind: refunded === 0n ? "credited" : "reversed",
    refunded_minor: refunded,
    review: isHeld ? "fraud_review" : null,
  });
  const day = new Date(at - 6 * 3_600_000);
  const common = { ...ids, event_type: t, occurred_at: at, year: day.getUTCFullYear(), month: day.getUTCMonth() + 1 };
  const earned = entry({
    ...common,
    entry_id: `led_${client_id}_${n}`,
    change_id: `chg_${client_id}_${n}`,
    amount_minor: commission,
    held: isHeld,
    inputs: JSON.stringify({ line_value_minor: value.toString(), rate_ppm: "100000" }),
    lines: balanced(commission, isHeld),
  });
  const reversal = entry({
    ...common,
    entry_id: `led_${client_id}_${n}_r`,
    kind: "reversal",
    change_id: `chg_${client_id}_${n}_r`,
    conversion_version: 2,
    amount_minor: -taken_back,
    lines: balanced(-taken_back, isHeld),
    reverses_entry_id: earned.entry_id,
  });
  await storeMoney(stores, [of], taken_back === 0n ? [earned] : [earned, reversal]);
};
