// The schedules that add up money by day from the differences that writers leave, and that show the
// balances of the ledger.
import type { Pool } from "pg";
import type { Metrics } from "../../../infra/runtime/metrics.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { addUpMoneyDays, ledgerBalances } from "../../../modules/figures/money-days/money-days.ts";

export const moneyDays = (pool: Pool): Schedule => ({
  name: "money-days",
  pauseMs: 10_000,
  work: async (isClosing) => {
    for (let done = 0; ; ) {
      const days = await addUpMoneyDays(pool);
      if (days === "busy") return "busy";
      done += days;
      if (days === 0 || isClosing()) return done;
    }
  },
});

export const ledgerBalance = (pool: Pool, metrics: Pick<Metrics, "setLedgerBalances">): Schedule => ({
  name: "ledger-balance",
  pauseMs: 60_000,
  work: async () => {
    const balances = await ledgerBalances(pool);
    metrics.setLedgerBalances(balances);
    return balances.length;
  },
});
