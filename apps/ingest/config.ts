// apps/ingest/config.ts - the only reader of the environment in the ingest app: checked once, all problems told together, then frozen.
import ipaddr from "ipaddr.js";
import { z } from "zod";

const port = (fallback: number) => z.coerce.number().int().min(0).max(65_535).default(fallback);
const optional = z.string().min(1).optional();

/** Names that express knows, or addresses and CIDR ranges of our own proxies: only they may say who the sender is. */
const proxies = z
  .string()
  .default("")
  .transform((list) =>
    list
      .split(",")
      .map((entry) => entry.trim())
      .filter((entry) => entry !== ""),
  )
  .refine(
    (list) => list.every((entry) => ["loopback", "linklocal", "uniquelocal"].includes(entry) || isRange(entry)),
    "must be addresses or CIDR ranges, e.g. 10.0.0.0/8,loopback",
  );
const isRange = (entry: string): boolean => ipaddr.isValid(entry) || ipaddr.isValidCIDR(entry);

const schema = z
  .object({
    HOST: z.string().min(1).default("127.0.0.1"),
    PORT: port(8080),
    OPS_PORT: port(9080),
    KAFKA_BROKERS: z.string().min(1),
    KAFKA_TOPIC_PREFIX: z.string().default(""),
    SCHEMA_REGISTRY_URL: z.url(),
    REDIS_URL: z.url(),
    POSTGRES_URL: z.url(),
    CLICKHOUSE_URL: z.url(),
    TRIBUTARY_SECRET: z.string().min(32, "must have at least 32 characters"),
    INSTANCE_NAME: z
      .string()
      .regex(/^[A-Za-z0-9._-]{1,64}$/, "must be 1 to 64 of A-Z a-z 0-9 . _ -")
      .default("ingest"),
    TRUSTED_PROXIES: proxies,
    LOG_LEVEL: z.enum(["debug", "info", "warn", "error", "silent"]).default("info"),
    TLS_CERT_FILE: optional,
    TLS_KEY_FILE: optional,
  })
  .refine((env) => (env.TLS_CERT_FILE === undefined) === (env.TLS_KEY_FILE === undefined), {
    path: ["TLS_CERT_FILE"],
    message: "and TLS_KEY_FILE must be given together",
  });

export type Config = Readonly<z.infer<typeof schema>>;

/** Throws one Error naming every variable that is missing or wrong; values are never shown, for some are secrets. */
export const readConfig = (env: Readonly<Record<string, string | undefined>> = process.env): Config => {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ""));
  const parsed = schema.safeParse(given);
  if (parsed.success) return Object.freeze(parsed.data);
  const problems = parsed.error.issues.map(({ path, message }) => `  ${path.join(".")}: ${message}`);
  throw new Error(`the configuration of ingest is not usable:\n${problems.join("\n")}`);
};
