// The servers that a suite uses: addresses, secrets and the seeded demo clients of the stack that
// tests/support/start-stack.ts started.
import { inject } from "vitest";

/**
 * `env` holds the variables that children of a stack get (KAFKA_BROKERS, POSTGRES_URL,
 * POSTGRES_ADMIN_URL, CLICKHOUSE_URL, REDIS_URL, ...), `demo` the part of run.json.
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
