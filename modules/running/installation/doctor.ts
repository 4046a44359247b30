// Checks the machine and a stack, and reports what is wrong and how to fix it. `tributary doctor`
// prints the result.
import type { StackConfig } from "../../../infra/embedded/config.ts";
import { type Home, readJson } from "../../../infra/embedded/home.ts";
import type { Run } from "../../../infra/embedded/supervisor.ts";
import type { Check, Finding, NamedCheck } from "./doctor/finding.ts";
import { machineChecks } from "./doctor/machine-checks.ts";
import {
  checkClock,
  checkHosting,
  checkPostgres,
  checkRetention,
  checkSources,
  checkUsers,
} from "./doctor/postgres-checks.ts";
import { checkProxies } from "./doctor/proxy-checks.ts";
import { checkClickhouse, checkKafka, checkRedis, checkRegistry } from "./doctor/server-checks.ts";

/**
 * Runs every check; a store is checked only when its address is in the environment or in
 * `run.json`. Takes about a second.
 */
export async function doctor(home: Home, config: StackConfig): Promise<readonly Check[]> {
  const run = readJson<Run>(home.path("run.json"));
  const checks: readonly NamedCheck[] = [
    ...machineChecks(home, config, run),
    ["proxies", () => checkProxies(config.inherited)],
    ...serverChecks(home, config, run?.services ?? {}),
  ];
  return Promise.all(
    checks.map(async ([name, look]) => {
      try {
        return { name, ...(await look()) };
      } catch (error) {
        return {
          name,
          ok: false,
          detail: (error as Error).message,
          cure: `see that the address of ${name} is right and that it runs (npm start)`,
        };
      }
    }),
  );
}

const serverChecks = (home: Home, config: StackConfig, services: Partial<Run["services"]>): readonly NamedCheck[] => {
  const kafka =
    config.KAFKA_BROKERS ??
    (services.kafka !== undefined && "brokers" in services.kafka ? services.kafka.brokers : undefined);
  const owner = ownerUrl(home, services.postgres);
  const isDemo = config.OIDC_ISSUER === undefined && services.identity !== undefined;
  return [
    ...checksAt(kafka, { kafka: checkKafka }),
    ...checksAt(config.POSTGRES_ADMIN_URL ?? config.POSTGRES_URL ?? owner, {
      postgres: checkPostgres,
      clock: checkClock,
    }),
    ...checksAt(config.POSTGRES_URL ?? owner, {
      users: (url) => checkUsers(url, isDemo),
      retention: checkRetention,
      hosting: checkHosting,
      sources: checkSources,
    }),
    ...checksAt(config.CLICKHOUSE_URL ?? urlOf(services.clickhouse), { clickhouse: checkClickhouse }),
    ...checksAt(config.REDIS_URL ?? urlOf(services.redis), { redis: checkRedis }),
    ...checksAt(config.SCHEMA_REGISTRY_URL ?? urlOf(services.registry), { registry: checkRegistry }),
  ];
};

const checksAt = (
  address: string | undefined,
  checks: Readonly<Record<string, (address: string) => Promise<Finding>>>,
): readonly NamedCheck[] =>
  address === undefined ? [] : Object.entries(checks).map(([name, check]) => [name, () => check(address)]);

const urlOf = (known: object | undefined): string | undefined =>
  known !== undefined && "url" in known ? String(known.url) : undefined;

/** Uses the owner: it can connect before the migrations have made the app's role. */
function ownerUrl(home: Home, known: object | undefined): string | undefined {
  if (known === undefined || !("url" in known)) return undefined;
  const url = new URL(String(known.url));
  const password = readJson<{ postgresOwner?: string }>(home.path("secrets.json"))?.postgresOwner;
  if (password === undefined) return url.href;
  url.username = "tributary_owner";
  url.password = password;
  return url.href;
}
