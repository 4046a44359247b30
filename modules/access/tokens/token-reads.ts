// Lists the live tokens of clients and partners for the platform API, which shows only the prefix
// of a token.
import type { Pool, PoolClient } from "pg";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { sql, transaction } from "../../../infra/postgres/sql.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Scope } from "../../base/work.ts";
import { rowInScope } from "../scope.ts";
import type { TokenKind } from "./tokens.ts";

export interface TokenFilter {
  readonly token_id?: number | undefined;
  readonly kind?: "ingest" | "upload" | undefined;
  readonly client_id?: number | undefined;
  readonly partner_id?: number | undefined;
  /** Also includes tokens of operators and services. */
  readonly isOfAnyKind?: boolean | undefined;
}

/** A token of a partner is visible through any of the partner's clients in the scope. */
export const tokenRows = ({ token_id, kind, client_id, partner_id, isOfAnyKind = false }: TokenFilter): RowsQuery => ({
  columns: {
    id: sql`t.token_id`,
    prefix: sql`t.prefix`,
    kind: sql`t.kind`,
    client_id: sql`t.client_id`,
    partner_id: sql`t.partner_id`,
    label: sql`t.label`,
    client_side: sql`t.client_side`,
    requests_a_minute: sql`case t.kind when 'ingest' then t.requests_a_minute end`,
    created_at: sql`t.created_at`,
    last_used_at: sql`t.last_used_at`,
  },
  from: sql`tokens t left join lateral (
    select p.client_ids from partners p where p.partner_id = t.partner_id order by p.version desc limit 1
  ) held on true`,
  tenant: sql`coalesce(t.client_id,
    (select c from unnest(held.client_ids) c where c = any (app_clients()) limit 1), 0)`,
  where: [
    sql`t.revoked_at is null and (${isOfAnyKind} or t.kind in ('ingest', 'upload'))`,
    token_id === undefined ? sql`true` : sql`t.token_id = ${token_id}`,
    kind === undefined ? sql`true` : sql`t.kind = ${kind}`,
    client_id === undefined ? sql`true` : sql`t.client_id = ${client_id}`,
    partner_id === undefined ? sql`true` : sql`t.partner_id = ${partner_id}`,
  ],
  sorts: { created_at: { by: sql`t.created_at`, type: "timestamptz" } },
  id: { by: sql`t.token_id`, type: "int" },
});

/** Returns a live token if the scope includes it, otherwise undefined. */
export const readToken = (
  tx: PoolClient,
  filter: TokenFilter & { readonly token_id: number },
  scope: Scope,
  names: readonly string[],
) => rowInScope(tx, tokenRows(filter), scope, names);

export interface ListedToken {
  readonly token_id: number;
  readonly kind: TokenKind;
  readonly client_id: number | null;
  readonly partner_id: number | null;
  readonly requests_a_minute: number;
  readonly label: string;
  readonly created_at: UnixMs;
  readonly last_used_at: UnixMs | null;
  readonly revoked_at: UnixMs | null;
}

/**
 * Lists the tokens of all tenants and of none, revoked ones included, in the role that may read
 * them.
 */
export const everyToken = (pool: Pool): Promise<readonly ListedToken[]> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<ListedToken>(sql`
        select token_id, kind, client_id, partner_id, requests_a_minute, label, created_at, last_used_at, revoked_at
        from tokens order by token_id`);
      return rows;
    },
    { role: "tributary_tokens", isReadOnly: true },
  );
