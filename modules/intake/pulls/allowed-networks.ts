// Private networks that outbound requests may reach, as listed by the owner of the database.
import type { Pool } from "pg";
import type { AllowedNetworks } from "../../../infra/outbound/outbound.ts";

/** Networks in CIDR notation; empty unless an operator has listed some. */
export const allowedNetworks = async (pool: Pool): Promise<AllowedNetworks> => {
  const { rows } = await pool.query<{ network: string }>(
    "select text(network) as network from outbound_networks order by network",
  );
  return rows.map(({ network }) => network);
};
