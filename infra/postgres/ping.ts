// Asks Postgres for a round trip: the port of a stopped server still opens.
import type { Pool } from "pg";

export const pingPostgres = async (pool: Pool): Promise<void> => {
  await pool.query("select 1");
};
