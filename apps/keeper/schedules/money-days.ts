// The schedule that adds up money by day from the differences that writers leave.
import type { Pool } from "pg";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { addUpMoneyDays } from "../../../modules/figures/money-days/money-days.ts";

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
