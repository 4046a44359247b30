// Lists a partner's payments for the platform API. There are no payments yet, so the list is empty
// until a table of them exists.
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { sql } from "../../../infra/postgres/sql.ts";

export const paymentRows = (partnerId: number): RowsQuery => ({
  columns: {
    id: sql`p.payment_id`,
    client_id: sql`p.client_id`,
    client: sql`p.client`,
    year: sql`p.year`,
    month: sql`p.month`,
    amount: sql`p.amount`,
    currency: sql`p.currency`,
    status: sql`p.status`,
    paid_at: sql`p.paid_at`,
    reason: sql`p.reason`,
    lines: sql`p.lines`,
    evidence: sql`p.evidence`,
  },
  from: sql`(select 0 as payment_id, 0 as client_id, ${partnerId}::int as partner_id, '' as client, 0 as year,
    0 as month, '' as amount, '' as currency, '' as status, null::timestamptz as paid_at, '' as reason,
    '[]'::jsonb as lines, '[]'::jsonb as evidence where false) p`,
  tenant: sql`p.client_id`,
  sorts: { period: { by: sql`p.year * 12 + p.month`, type: "int" } },
  id: { by: sql`p.payment_id`, type: "int" },
});
