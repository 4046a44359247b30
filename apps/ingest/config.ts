// The only reader of the environment in the ingest app.
import { type Environment, edgeVariables, readEnvironment } from "../../infra/runtime/environment.ts";

const names = [...edgeVariables, "REDIS_URL", "CLICKHOUSE_URL", "MERCADOPAGO_URL"] as const;
export type Config = Environment<(typeof names)[number]>;

/** Throws one Error naming every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("ingest", names, env);
