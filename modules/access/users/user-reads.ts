// Lists users for the platform API. They belong to no tenant, so they are the operator's rows.
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { sql } from "../../../infra/postgres/sql.ts";
import type { Role } from "./users.ts";

export interface UserFilter {
  readonly role?: Role | undefined;
  readonly status?: "active" | "disabled" | undefined;
  /** The beginning of the name or the address. */
  readonly q?: string | undefined;
}

export const userRows = ({ role, status, q }: UserFilter): RowsQuery => ({
  columns: {
    id: sql`user_id`,
    email: sql`email`,
    name: sql`name`,
    role: sql`role`,
    client_ids: sql`client_ids`,
    all_clients: sql`all_clients`,
    partner_id: sql`partner_id`,
    status: sql`case when removed_at is null then 'active' else 'disabled' end`,
    locale: sql`locale`,
    bound_at: sql`bound_at`,
    last_seen_at: sql`last_seen_at`,
    created_at: sql`created_at`,
    updated_at: sql`updated_at`,
    version: sql`version`,
  },
  from: sql`users`,
  role: "tributary_tokens",
  tenant: sql`0`,
  where: [
    role === undefined ? sql`true` : sql`role = ${role}`,
    status === undefined ? sql`true` : sql`(removed_at is null) = ${status === "active"}`,
    q === undefined
      ? sql`true`
      : sql`starts_with(lower(name), lower(${q}::text)) or starts_with(email, lower(${q}::text))`,
  ],
  sorts: { email: { by: sql`email`, type: "text" }, created_at: { by: sql`created_at`, type: "timestamptz" } },
  id: { by: sql`user_id`, type: "int" },
});
