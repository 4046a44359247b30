// Reads sources for people: sealed values are never shown, and of a key only its existence.
import type { Pool } from "pg";
import type { RowsQuery } from "../../../infra/postgres/rows.ts";
import { type Sql, sql, transaction } from "../../../infra/postgres/sql.ts";
import type { Source } from "./sources.ts";

export interface SourceFilter {
  readonly source_id?: number | undefined;
  readonly client_id?: number | undefined;
  readonly kind?: string | undefined;
  readonly state?: string | undefined;
}

export const sourceRows = ({ source_id, client_id, kind, state }: SourceFilter): RowsQuery => {
  const given: readonly (Sql | undefined)[] = [
    source_id === undefined ? undefined : sql`s.source_id = ${source_id}`,
    client_id === undefined ? undefined : sql`s.client_id = ${client_id}`,
    kind === undefined ? undefined : sql`s.kind = ${kind}`,
    state === undefined ? undefined : sql`s.state = ${state}`,
  ];
  return {
    columns: {
      ...{ id: sql`s.source_id`, client_id: sql`s.client_id`, slug: sql`s.slug`, name: sql`s.name` },
      ...{ kind: sql`s.kind`, mode: sql`s.mode`, state: sql`s.state`, mapping: sql`s.mapping` },
      ...{
        constants: sql`s.constants`,
        event_names: sql`s.event_names`,
        allow_ips: sql`s.allow_ips`,
        unsigned: sql`s.unsigned`,
        unsigned_money: sql`s.unsigned_money`,
        pull: sql`s.pull`,
      },
      ...{ has_secret: sql`s.secret is not null`, has_pull_secret: sql`s.pull_secret is not null` },
      ...{ has_key: sql`s.key_sha256 is not null`, key_rotated_at: sql`s.key_rotated_at` },
      ...{ last_pull_at: sql`s.last_pull_at`, last_pull_stats: sql`s.last_pull_stats` },
      ...{ created_at: sql`s.created_at`, updated_at: sql`s.updated_at`, version: sql`s.version` },
    },
    from: sql`sources s`,
    tenant: sql`s.client_id`,
    where: given.filter((part): part is Sql => part !== undefined),
    sorts: { name: { by: sql`s.name`, type: "text" }, created_at: { by: sql`s.created_at`, type: "timestamptz" } },
    id: { by: sql`s.source_id`, type: "int" },
  };
};

export type UnsignedSource = Pick<Source, "source_id" | "client_id" | "slug" | "unsigned" | "unsigned_money">;

/**
 * The active sources whose payloads are not signed. Sources of other kinds have a key in their
 * address.
 */
export const unsignedSources = (pool: Pool): Promise<readonly UnsignedSource[]> =>
  transaction(
    pool,
    null,
    async (tx) => {
      const { rows } = await tx.query<UnsignedSource>(sql`
        select source_id, client_id, slug, unsigned, unsigned_money from sources
        where kind = 'generic' and state = 'active' and secret is null order by source_id`);
      return rows;
    },
    { role: "tributary_edge", isReadOnly: true },
  );
