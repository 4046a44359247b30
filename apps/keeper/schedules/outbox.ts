// The schedules of the outbox: sending waiting rows, and deleting rows that were sent long ago.
import type { Pool } from "pg";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { forgetSent, relayOutbox, waitingOutbox } from "../../../modules/base/outbox/outbox.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";

const ROWS_AT_ONCE = 500;

export const outbox = (pool: Pool, wire: Wire, produce: Produce): Schedule => ({
  name: "outbox",
  pauseMs: 500,
  work: async (isClosing) => {
    for (let done = 0; ; ) {
      const sent = await relayOutbox(pool, wire, produce, ROWS_AT_ONCE);
      if (sent === "busy") return "busy";
      done += sent;
      if (sent < ROWS_AT_ONCE || isClosing()) return done;
    }
  },
  waiting: () => waitingOutbox(pool),
});

export const forgetting = (pool: Pool): Schedule => ({
  name: "outbox-forget",
  pauseMs: 3_600_000,
  work: () => forgetSent(pool),
});
