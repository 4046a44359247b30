// The configuration of a stack of the suite, without the addresses of servers in the shell's
// environment.
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
  ...["OBJECT_STORE_URL", "SMTP_URL", "MERCADOPAGO_URL", "RESTART_COMMAND", "KAFKA_TOPIC_PREFIX", "NODE_OPTIONS"],
  "TRIBUTARY_HOME",
];

export const ownConfig = (): StackConfig => {
  const environment = { ...process.env };
  for (const name of outside) delete environment[name];
  return stackConfig(environment);
};

/** The folders with programs. */
export const searchPath = (): string => process.env.PATH ?? "";
