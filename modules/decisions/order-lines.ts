// An order as it stands: its lines, who is credited for each, and what it earns; and whether a
// claim has been settled.
import type { Pool } from "pg";
import { sql, transaction } from "../../infra/postgres/sql.ts";

export interface OrderLine {
  readonly product_id: string | null;
  readonly value_minor: bigint | null;
  readonly currency: string | null;
  readonly partner_id: number | null;
  /** Why nobody is credited. */
  readonly credit_reason: string | null;
  readonly commission_minor: bigint | null;
  /** pending, on_hold or reversed. */
  readonly commission_status: string | null;
}

/** Lines of an order without second copies; none when nothing was heard of it. */
export const orderLines = (pool: Pool, clientId: number, orderId: string): Promise<readonly OrderLine[]> =>
  transaction(
    pool,
    [clientId],
    async (tx) =>
      (
        await tx.query<OrderLine>(sql`
          select s.product_id, s.value_minor, s.currency, s.partner_id, s.credit_reason, m.amount_minor as commission_minor,
            m.status as commission_status
          from product_sales s
          left join conversions c on c.client_id = s.client_id and c.event_id = s.event_id and c.partner_id = s.partner_id and c.status = 'credited'
          left join commissions m on m.client_id = c.client_id and m.conversion_id = c.conversion_id
          where s.client_id = ${clientId} and s.order_id = ${orderId} and s.t <> 'refund' and s.merged_into is null
          order by s.product_id nulls first`)
      ).rows,
    { isReadOnly: true },
  );

/** Whether settle has decided about the claim of this id: its outcome is then recorded for good. */
export const isSettled = async (pool: Pool, clientId: number, claimId: string): Promise<boolean> =>
  transaction(
    pool,
    [clientId],
    async (tx) =>
      (await tx.query(sql`select from memory_outcome where stage = 'settle' and event_id = ${claimId}`)).rows.length >
      0,
    { isReadOnly: true },
  );
