// The schedule of the nightly pass: at 03:30 in Mexico City it inspects the day before, client by
// client.
import type { Pool } from "pg";
import { dayOf, startOfDay } from "../../../domain/calendar.ts";
import type { Client } from "../../../domain/reference/reference.ts";
import { reference } from "../../../domain/reference/reference.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { Log } from "../../../infra/runtime/log.ts";
import type { Schedule } from "../../../infra/runtime/timing/schedule.ts";
import { openReference } from "../../../modules/catalog/reference/reference.ts";
import { decisionMessages } from "../../../modules/money/decisions/decision-messages.ts";
import { inspectDay } from "../../../modules/money/nightly/inspect-day.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Produce } from "../../../stream/messages.ts";
import type { Wire } from "../../../stream/wire.ts";

const AT_MS = 3.5 * 3_600_000;
const DAY_MS = 86_400_000;
/**
 * The length of a turn; the next turn continues. A schedule that does not return counts as dead.
 */
const TURN_MS = 30_000;

/** Returns the newest due day: the one before the last 03:30, as YYYY-MM-DD in Mexico City. */
export const dueDay = (now: UnixMs): string => {
  const today = startOfDay(dayOf(now));
  // Twelve hours before a day begins is inside the day before, even when clocks change.
  const before = dayOf(today - DAY_MS / 2);
  return now >= today + AT_MS ? before : dayOf(startOfDay(before) - DAY_MS / 2);
};

export interface NightlyPorts {
  readonly pool: Pool;
  readonly clickhouse: Clickhouse;
  readonly wire: Wire;
  readonly produce: Produce;
  readonly log: Pick<Log, "info">;
  readonly clock: () => UnixMs;
}

/**
 * Begins with the last due day, so that a night without a keeper is made up for. A pass that is
 * repeated makes the same decisions with the same ids, which changes nothing.
 */
export const nightly = ({ pool, clickhouse, wire, produce, log, clock }: NightlyPorts): Schedule => {
  let night = "";
  let isDone = false;
  const passed = new Set<number>();
  return {
    name: "fraud-nightly",
    pauseMs: 60_000,
    work: async (isClosing) => {
      const now = clock();
      const day = dueDay(now);
      if (day !== night) {
        night = day;
        isDone = false;
        passed.clear();
      }
      if (isDone) return 0;
      const end = now + TURN_MS;
      let written = 0;
      for (const client of await clientsOf(pool, now)) {
        if (passed.has(client.client_id)) continue;
        if (isClosing() || clock() > end) return written;
        const { findings, decisions } = await inspectDay(clickhouse, client, day, now);
        await produce(decisionMessages(wire, decisions));
        written += decisions.length;
        passed.add(client.client_id);
        if (findings.length > 0)
          log.info("nightly.found", {
            client_id: client.client_id,
            day,
            findings: findings.length,
            decisions: decisions.length,
          });
      }
      isDone = true;
      return written;
    },
  };
};

const clientsOf = async (pool: Pool, now: UnixMs): Promise<readonly Client[]> => {
  const opened = openReference(pool);
  try {
    const known = await opened.read(reference, now);
    const at = known.at(now, Number.MAX_SAFE_INTEGER);
    return known.clientIds.flatMap((id) => at.client(id) ?? []).filter(({ status }) => status !== "archived");
  } finally {
    await opened.close();
  }
};
