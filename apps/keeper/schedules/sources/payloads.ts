// The schedule that deletes raw payloads of sources after 48 hours.
import type { Pool } from "pg";
import type { Schedule } from "../../../../infra/runtime/timing/schedule.ts";
import { purgePayloads } from "../../../../modules/intake/sources/payloads.ts";

/** Two keepers need no lock, because deleting twice has the effect of once. Counts payloads. */
export const payloadPurge = (pool: Pool, clock: () => number): Schedule => ({
  name: "payloads-purge",
  pauseMs: 600_000,
  work: (isClosing) => purgePayloads(pool, clock(), isClosing),
});
