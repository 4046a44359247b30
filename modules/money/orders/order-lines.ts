// The current state of an order: its lines, their credited partners and earnings. Also reports
// whether a claim has been settled.
import { setTimeout as sleep } from "node:timers/promises";
import type { Pool, PoolClient } from "pg";
import { decodeOutcome } from "../../../infra/avro/outcome.ts";
import { unpacked } from "../../../infra/postgres/packed-values.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { StoredCommission } from "../../../sinks/ledger/table.ts";
import type { StoredSale } from "../../../sinks/product-sales/table.ts";

/** `credit_reason` says why no partner is credited. */
export interface OrderLine
  extends Pick<StoredSale, "product_id" | "value_minor" | "currency" | "partner_id" | "credit_reason"> {
  readonly commission_minor: StoredCommission["amount_minor"] | null;
  readonly commission_status: StoredCommission["status"] | null;
}

/** The lines of an order without second copies; empty for an unknown order. */
export const orderLines = (pool: Pool, clientId: number, orderId: string): Promise<readonly OrderLine[]> =>
  transaction(
    pool,
    [clientId],
    async (tx) =>
      (
        await tx.query<OrderLine>(sql`
          select s.product_id, s.value_minor, s.currency, s.partner_id, s.credit_reason,
            m.amount_minor as commission_minor, m.status as commission_status
          from product_sales s
          left join conversions c on c.client_id = s.client_id and c.event_id = s.event_id
            and c.partner_id = s.partner_id and c.status = 'credited'
          left join commissions m on m.client_id = c.client_id and m.conversion_id = c.conversion_id
          where s.client_id = ${clientId} and s.order_id = ${orderId} and s.t <> 'refund' and s.merged_into is null
          order by s.product_id nulls first`)
      ).rows,
    { isReadOnly: true },
  );

/** The result of a claim that settle has processed. */
export interface SettledClaim {
  /** False: the claim changed nothing, or something else came first. */
  readonly hasChanged: boolean;
}

/** The partner's current earnings from the lines of these events. */
export interface EarnedNow {
  readonly partner_id: number;
  readonly currency: string;
  readonly amount_minor: bigint;
}

export const earnedBy = (pool: Pool, clientId: number, eventIds: readonly string[]): Promise<readonly EarnedNow[]> =>
  transaction(
    pool,
    [clientId],
    async (tx) =>
      (
        await tx.query<EarnedNow>(sql`
          select e.partner_id, e.currency, sum(e.amount_minor)::bigint as amount_minor
          from ledger_entries e join conversions c using (client_id, conversion_id)
          where e.client_id = ${clientId} and c.event_id = any (${eventIds}::uuid[])
          group by 1, 2`)
      ).rows,
    { isReadOnly: true },
  );

/** The given claims that settle has processed; their outcomes are final. */
export const settledOf = (pool: Pool, claims: readonly string[]): Promise<ReadonlyMap<string, SettledClaim>> =>
  transaction(pool, null, (tx) => settledWithin(tx, claims), { isReadOnly: true });

/** Does the same inside the caller's transaction. */
export const settledWithin = async (
  tx: PoolClient,
  claims: readonly string[],
): Promise<ReadonlyMap<string, SettledClaim>> => {
  const { rows } = await tx.query<{ event_id: string; outcome: Buffer }>(sql`
    select event_id, outcome from memory_outcome where stage = 'settle' and event_id = any (${claims})`);
  return new Map(
    rows.map(({ event_id, outcome }) => [
      event_id,
      { hasChanged: decodeOutcome(unpacked(outcome)).messages.length > 0 },
    ]),
  );
};

/** How long a caller waits until a decision is applied (docs/design/contracts.md, "Decisions"). */
const APPLIED_WITHIN_MS = 5_000;
const ASKED_EVERY_MS = 100;

/** Waits at most 5 s until settle has processed all of them, and returns the processed ones. */
export const whenSettled = async (
  pool: Pool,
  claims: readonly string[],
): Promise<ReadonlyMap<string, SettledClaim>> => {
  const end = performance.now() + APPLIED_WITHIN_MS;
  for (;;) {
    const settled = await settledOf(pool, claims);
    if (settled.size === claims.length || performance.now() > end) return settled;
    await sleep(ASKED_EVERY_MS);
  }
};

/**
 * Whether an assignment to this partner came too late: it changed nothing, and the current lines
 * are credited to others. A sale that has not arrived yet has no lines.
 */
export const isOvertaken = (
  settled: SettledClaim | undefined,
  partnerId: number,
  lines: readonly { readonly partner_id: number | null }[],
): boolean =>
  settled?.hasChanged === false && lines.length > 0 && lines.every(({ partner_id }) => partner_id !== partnerId);
