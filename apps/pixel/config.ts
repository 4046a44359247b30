// The only reader of the environment in the host of pixels.
import { type Environment, readEnvironment } from "../../infra/runtime/environment.ts";

const names = [
  ...([
    "HOST",
    "PORT",
    "OPS_PORT",
    "INSTANCE_NAME",
    "LOG_LEVEL",
    "TLS_CERT_FILE",
    "TLS_KEY_FILE",
    "TRUSTED_PROXIES",
  ] as const),
  ...([
    "KAFKA_BROKERS",
    "KAFKA_TOPIC_PREFIX",
    "SCHEMA_REGISTRY_URL",
    "POSTGRES_URL",
    "OBJECT_STORE_URL",
    "TRIBUTARY_HOME",
    "TRIBUTARY_SECRET",
  ] as const),
] as const;
export type Config = Environment<(typeof names)[number]>;

/** Throws one Error naming every variable that is missing or wrong. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config =>
  readEnvironment("the host of pixels", names, env);
