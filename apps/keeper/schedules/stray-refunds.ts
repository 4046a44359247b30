// The schedule that moves refunds which name an event to the line of that event.
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { decisionMessages } from "../../../modules/money/decisions/decision-messages.ts";
import { movesOfStrayRefunds } from "../../../modules/money/orders/stray-refunds.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";

export interface StrayRefundsPorts {
  readonly pool: Pool;
  readonly clickhouse: Clickhouse;
  readonly wire: Wire;
  readonly produce: Produce;
  readonly clock: () => UnixMs;
}
/**
 * The length of a turn; the next turn continues. A schedule that does not return counts as dead.
 */
const TURN_MS = 30_000;
/** The pause between two turns of a pass through all orders. */
const PAUSE_MS = 60_000;
/** The time from the beginning of one pass to the beginning of the next. */
const ROUND_MS = 3_600_000;

/**
 * The refund of an event that is not stored yet waits, and the event is looked up again an hour
 * later. A pass that is longer than a turn continues a minute later, until it has seen all orders.
 */
export const strayRefunds = ({ pool, clickhouse, wire, produce, clock }: StrayRefundsPorts): Schedule => {
  let after = "";
  let nextRound = Number.NEGATIVE_INFINITY;
  return {
    name: "stray-refunds",
    pauseMs: PAUSE_MS,
    work: async (isClosing) => {
      const now = clock();
      if (after === "" && now < nextRound) return 0;
      if (after === "") nextRound = now + ROUND_MS;
      const isOver = (): boolean => isClosing() || clock() > now + TURN_MS;
      let moved = 0;
      for await (const { key, claims } of movesOfStrayRefunds({ pool, clickhouse }, now, { after })) {
        if (claims.length > 0) {
          await produce(decisionMessages(wire, claims));
          moved += 1;
        }
        after = key;
        if (isOver()) return moved;
      }
      after = "";
      return moved;
    },
  };
};
