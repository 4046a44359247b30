// The schedule that counts the items that wait for their sale or for a person, and since when.
import type { Pool } from "pg";
import type { Metrics } from "../../../infra/runtime/metrics.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { countWaiting } from "../../../modules/money/orders/waiting-items.ts";
import { shown } from "../figures.ts";

export const waiting = (
  pool: Pool,
  metrics: Pick<Metrics, "setWaitingMoney" | "setKnown">,
  clock: () => number,
): Schedule => ({
  name: "waiting",
  // It reads every order, and nothing here is urgent: an order is late after 48 hours.
  pauseMs: 3_600_000,
  work: async (isClosing) => {
    const show = (kinds: Parameters<Metrics["setWaitingMoney"]>[0]): void => {
      if (!isClosing()) metrics.setWaitingMoney(kinds);
    };
    const kinds = await shown(metrics, "waiting", () => countWaiting(pool, clock(), isClosing), show);
    return kinds.reduce((sum, { count }) => sum + count, 0);
  },
});
