// apps/worker/config.ts - the only reader of the environment in the worker: checked once, all problems told together, then frozen.
import { z } from "zod";

const schema = z.object({
  HOST: z.string().min(1).default("127.0.0.1"),
  OPS_PORT: z.coerce.number().int().min(0).max(65_535).default(9090),
  KAFKA_BROKERS: z.string().min(1),
  KAFKA_TOPIC_PREFIX: z.string().default(""),
  SCHEMA_REGISTRY_URL: z.url(),
  REDIS_URL: z.url(),
  POSTGRES_URL: z.url(),
  CLICKHOUSE_URL: z.url(),
  TRIBUTARY_SECRET: z.string().min(32, "must have at least 32 characters"),
  /** A MaxMind city or country database (.mmdb) of the operator, instead of the country data that is shipped. */
  GEOIP_CITY_DB: z.string().min(1).optional(),
  INSTANCE_NAME: z
    .string()
    .regex(/^[A-Za-z0-9._-]{1,64}$/, "must be 1 to 64 of A-Z a-z 0-9 . _ -")
    .default("worker"),
  LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
});

export type Config = Readonly<z.infer<typeof schema>>;

/** Throws one Error naming every variable that is missing or wrong; values are never shown, for some are secrets. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config => {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  const parsed = schema.safeParse(given);
  if (parsed.success) return Object.freeze(parsed.data);
  const problems = parsed.error.issues.map(({ path, message }) => `  ${path.join(".")}: ${message}`);
  throw new Error(`the configuration of the worker is not usable:\n${problems.join("\n")}`);
};
