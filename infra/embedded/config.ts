// The variables that the embedded stack reads from the environment, once.
import { z } from "zod";
import { withFiles } from "../runtime/credentials/files.ts";

const text = z.string().min(1).optional();

const stackEnvironment = z.object({
  TRIBUTARY_HOME: text,
  JAVA_HOME: text,
  PATH: z.string().default(""),
  KAFKA_BROKERS: text,
  CLICKHOUSE_URL: text,
  POSTGRES_URL: text,
  POSTGRES_ADMIN_URL: text,
  REDIS_URL: text,
  SCHEMA_REGISTRY_URL: text,
  OIDC_ISSUER: text,
  LOG_LEVEL: z.enum(["trace", "debug", "info", "warn", "error"]).default("info"),
});

const serverEnvironment = z.object({
  PORT: z.coerce.number().int().min(1).max(65_535),
  /** A container opens another address than the loopback; docker-compose.yml publishes it there. */
  HOST: z.string().min(1).default("127.0.0.1"),
  DATA_FOLDER: text,
  KAFKA_BROKERS: text,
  LOGIN_SECRET: text,
  OWNER_PASSWORD: text,
  APP_PASSWORD: text,
});

export type StackConfig = Readonly<z.infer<typeof stackEnvironment>> & {
  /** The whole environment; a child gets what it reads (app.ts). */
  readonly inherited: Readonly<Record<string, string | undefined>>;
};
export type ServerConfig = Readonly<z.infer<typeof serverEnvironment>>;

/** @throws Error naming every variable that is wrong. */
export function stackConfig(environment: NodeJS.ProcessEnv = process.env): StackConfig {
  const { env, problems } = withFiles(environment);
  if (problems.length > 0) throw wrong(problems);
  return Object.freeze({ ...parse(stackEnvironment, env), inherited: env });
}

/**
 * The variables that `serve.ts` needs for one embedded server. @throws Error naming every variable
 * that is wrong.
 */
export function serverConfig(environment: NodeJS.ProcessEnv = process.env): ServerConfig {
  return Object.freeze(parse(serverEnvironment, environment));
}

const wrong = (problems: readonly string[]): Error => new Error(`The environment is wrong: ${problems.join("; ")}`);

function parse<T extends z.ZodType>(schema: T, environment: Readonly<Record<string, string | undefined>>): z.infer<T> {
  // An empty variable is the shell's form of "not set".
  const result = schema.safeParse(Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== "")));
  if (result.success) return result.data;
  throw wrong(result.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`));
}
