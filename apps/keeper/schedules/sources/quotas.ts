// The schedule that mails when most of a quota of events is spent.
import type { Pool } from "pg";
import type { Schedule } from "../../../../infra/runtime/timing/schedule.ts";
import { announceUsage } from "../../../../modules/intake/quotas/announce.ts";

export const intakeQuotas = (pool: Pool): Schedule => ({
  name: "intake-quotas",
  pauseMs: 60_000,
  work: () => announceUsage(pool),
});
