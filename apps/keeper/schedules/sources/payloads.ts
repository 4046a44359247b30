// The schedule that ends raw payloads of sources 48 hours after they came.
import type { Pool } from "pg";
import type { Schedule } from "../../../../infra/runtime/timing/schedule.ts";
import { purgePayloads } from "../../../../modules/intake/sources/payloads.ts";

/** Deleting the same twice is deleting it once, so two keepers need no lock; a payload each. */
export const payloadPurge = (pool: Pool, clock: () => number): Schedule => ({
  name: "payloads-purge",
  pauseMs: 600_000,
  work: (isClosing) => purgePayloads(pool, clock(), isClosing),
});
