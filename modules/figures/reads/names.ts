// Reads the clients, partners and campaigns that figures are about, with the settings that figures
// need.
import type { PoolClient } from "pg";
import { sql } from "../../../infra/postgres/sql.ts";

export interface ClientOfFigures {
  readonly client_id: number;
  readonly currency: string;
  readonly retention_months: number;
}

/** Returns the newest row of each of these clients that the transaction may see. */
export const clientsOfFigures = async (
  tx: PoolClient,
  clients: readonly number[],
): Promise<readonly ClientOfFigures[]> => {
  const { rows } = await tx.query<ClientOfFigures>(sql`
    select distinct on (client_id) client_id, currency, retention_months from clients
    where client_id = any (${clients}::int[]) order by client_id, version desc`);
  return rows;
};

/** Names by id; one that the transaction may not see is absent. */
export const partnerNames = async (
  tx: PoolClient,
  partners: readonly number[],
): Promise<ReadonlyMap<number, string>> => {
  const { rows } = await tx.query<{ partner_id: number; name: string }>(sql`
    select distinct on (partner_id) partner_id, name from partners
    where partner_id = any (${partners}::int[]) order by partner_id, version desc`);
  return new Map(rows.map(({ partner_id, name }) => [partner_id, name]));
};
