// The environment of a stack that must not be led to servers that the shell names.
import { type StackConfig, stackConfig } from "../../infra/embedded/config.ts";

const outside = [
  ...[
    "KAFKA_BROKERS",
    "CLICKHOUSE_URL",
    "POSTGRES_URL",
    "POSTGRES_ADMIN_URL",
    "REDIS_URL",
    "SCHEMA_REGISTRY_URL",
    "OIDC_ISSUER",
  ],
  ...["OBJECT_STORE_URL", "SMTP_URL", "RESTART_COMMAND", "KAFKA_TOPIC_PREFIX", "NODE_OPTIONS", "TRIBUTARY_HOME"],
];

export const ownConfig = (): StackConfig => {
  const environment = { ...process.env };
  for (const name of outside) delete environment[name];
  return stackConfig(environment);
};

/** Where programs are found. */
export const searchPath = (): string => process.env.PATH ?? "";
