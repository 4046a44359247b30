// The only reader of the environment in the keeper.
import { type Environment, readEnvironment } from "../../infra/runtime/environment.ts";

const names = [
  ...(["OPS_PORT", "INSTANCE_NAME", "LOG_LEVEL", "TLS_CERT_FILE", "TLS_KEY_FILE"] as const),
  ...([
    "KAFKA_BROKERS",
    "KAFKA_TOPIC_PREFIX",
    "SCHEMA_REGISTRY_URL",
    "POSTGRES_URL",
    "CLICKHOUSE_URL",
    "REDIS_URL",
    "OBJECT_STORE_URL",
    "SMTP_URL",
    "RESTART_COMMAND",
    "TRIBUTARY_HOME",
    "TRIBUTARY_SECRET",
    "GEOIP_CITY_DB",
    "GEOIP_ASN_DB",
    "NETWORKS_FILE",
  ] as const),
] as const;
export type Config = Environment<(typeof names)[number]>;

/** Throws one Error naming every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("the keeper", names, env);
