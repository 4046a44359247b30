// Marks minutes as the analytics sink does, for events that are stored already and now count
// differently.
import type { Pool } from "pg";
import { rollupMarks } from "../../../sinks/rollup-marks/table.ts";
import { postgresStore } from "../../../sinks/stores/postgres.ts";

/** `minutes`: a client and the first second of a minute, as ClickHouse writes numbers. */
export const markMinutes = async (
  pool: Pool,
  minutes: readonly (readonly [client: number | string, second: number | string])[],
): Promise<void> => {
  const touched = minutes.map(([client, second]) => ({ client_id: Number(client), minute: Number(second) * 1_000 }));
  const tenants = [...new Set(touched.map(({ client_id }) => client_id))];
  await postgresStore(pool).within({ tenants, token: "" }, (write) => rollupMarks.write(touched, write));
};
