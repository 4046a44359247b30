// Reads the environment of the platform API; no other file of it does.
import { type Environment, readEnvironment, serverVariables } from "../../infra/runtime/environment.ts";

const names = [
  ...serverVariables,
  ...(["KAFKA_BROKERS", "KAFKA_TOPIC_PREFIX", "SCHEMA_REGISTRY_URL"] as const),
  ...(["POSTGRES_URL", "CLICKHOUSE_URL", "REDIS_URL", "OIDC_ISSUER", "SMTP_URL"] as const),
  ...(["TRIBUTARY_SECRET", "PORTAL_URL", "OBJECT_STORE_URL"] as const),
  ...(["TRACKING_URL", "PIXEL_URL", "INGEST_URL", "UPLOAD_URL"] as const),
] as const;
export type Config = Environment<(typeof names)[number]>;

/** Throws one Error that names every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("the platform API", names, env);
