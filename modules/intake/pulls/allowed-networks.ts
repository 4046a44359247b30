// Networks that requests of ours may go to although they are not public, as the owner of the
// database has listed them.
import type { Pool } from "pg";
import type { AllowedNetworks } from "../../../infra/outbound/outbound.ts";

/** In CIDR notation; none unless an operator has listed them. */
export const allowedNetworks = async (pool: Pool): Promise<AllowedNetworks> => {
  const { rows } = await pool.query<{ network: string }>(
    "select text(network) as network from outbound_networks order by network",
  );
  return rows.map(({ network }) => network);
};
