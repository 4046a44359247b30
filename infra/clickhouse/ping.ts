// Asks ClickHouse to run a statement.
import type { Clickhouse } from "./client.ts";

export const pingClickhouse = async (clickhouse: Clickhouse): Promise<void> => {
  await clickhouse.query({ query: "SELECT 1", format: "JSONCompact" }).then((answer) => answer.json());
};
