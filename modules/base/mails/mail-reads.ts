// Lists mails for the platform API.
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql } from "../../../infra/postgres/sql.ts";

export const mailStates = ["waiting", "sent", "given_up"] as const;
const state: Sql = sql`case when sent_at is not null then 'sent'
  when created_at > clock_timestamp() - interval '24 hours' then 'waiting' else 'given_up' end`;

/** Mails belong to no tenant, so they are the operator's rows. */
export const mailRows = ({ status }: { readonly status?: (typeof mailStates)[number] | undefined }): RowsQuery => ({
  columns: {
    id: sql`'mail_' || mail_id`,
    happening: sql`happening`,
    recipient: sql`recipient`,
    template: sql`template`,
    locale: sql`locale`,
    status: state,
    attempts: sql`attempts`,
    error: sql`error`,
    created_at: sql`created_at`,
    sent_at: sql`sent_at`,
  },
  from: sql`mails`,
  role: "tributary_tokens",
  tenant: sql`0`,
  where: [status === undefined ? sql`true` : sql`${state} = ${status}`],
  sorts: { created_at: { by: sql`created_at`, type: "timestamptz" } },
  id: { by: sql`mail_id`, type: "bigint" },
});
