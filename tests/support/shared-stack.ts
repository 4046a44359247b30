// What a suite on real servers gets: addresses, secrets and the seeded demo clients of the stack
// that tests/support/start-stack.ts started.
import { inject } from "vitest";

/**
 * `env` as the children of a stack get it (KAFKA_BROKERS, POSTGRES_URL, POSTGRES_ADMIN_URL,
 * CLICKHOUSE_URL, REDIS_URL, ...), `demo` as in run.json.
 */
export interface SharedStack {
  readonly env: Readonly<Record<string, string>>;
  readonly demo: Readonly<Record<string, any>>;
}
declare module "vitest" {
  export interface ProvidedContext {
    readonly stack: SharedStack;
  }
}

export const sharedStack = (): SharedStack => inject("stack");
