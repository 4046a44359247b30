// The stack after its last fault: healed, every process well, and everything read that lies in
// the log.
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { readGroups } from "./hosting.ts";
import { type Target, urlsOf } from "./target.ts";

/**
 * L1 allows 60 s; beyond that the wait goes on, so that the other laws can be asked all the same.
 */
export const LONGEST_QUIET_MS = 180_000;
const WELL_MS = 120_000;
const CALM_MS = 60_000;
/** What takes longer to catch up is worth a line. */
const SLOW_SECONDS = 3;

/**
 * Until every group has read what lies in its topic now, in the order that data flows, and rollups
 * show what was stored.
 */
export const quietOf = async (target: Target, deadlineMs: number, tell: (text: string) => void): Promise<void> => {
  // What an edge took while the log was away reaches it late.
  for (const url of urlsOf(target))
    await until("the edges have drained what they kept", deadlineMs, async () => {
      const { failover } = (await (await fetch(`${url}/health`, { signal: AbortSignal.timeout(5_000) })).json()) as {
        failover?: { readonly spooled_events: number; readonly last_resort_events: number };
      };
      const left = (failover?.spooled_events ?? 0) + (failover?.last_resort_events ?? 0);
      if (left > 0) throw new Error(`${left} events wait`);
    });
  for (const { name, topic } of readGroups) {
    const began = performance.now();
    await until(`${name} has read ${topic}`, deadlineMs, () =>
      target.withAdmin(async (admin) => {
        const marks = await admin.watermarks(topic);
        // Only what lay there at the call counts; later marks of a running installation are the
        // next reader's.
        await until(`${name} has read ${topic}`, 5_000, async () => {
          const committed = await admin.committed(name, topic);
          const left = marks.reduce(
            (sum, { partition, low, high }) => sum + Math.max(0, high - (committed.get(partition) ?? low)),
            0,
          );
          if (left > 0) throw new Error(`it lags by ${left}`);
        });
      }),
    );
    const seconds = (performance.now() - began) / 1_000;
    if (seconds > SLOW_SECONDS) tell(`${name} had read ${topic} after ${seconds.toFixed(1)} s`);
  }
  const stored = new Date().toISOString();
  await until("rollups show what was stored", deadlineMs, async () => {
    const [left] = await target.rows<{ n: number }>(
      `select count(*)::int as n
      from (select marked_at from rollup_marks union all select marked_at from rollup_hours) as waiting
      where marked_at < '${stored}'`,
    );
    if (left!.n > 0) throw new Error(`${left!.n} minutes and hours wait`);
  });
};

/**
 * The last fault is healed when its servers answer again and nothing stands in the way; what the
 * product needs from then on is its own (L1).
 */
export const heal = async (target: Target): Promise<void> => {
  for (const proxy of Object.values(target.proxies)) proxy.weather({});
  for (const name of Object.keys(target.run().services)) await target.well(name, WELL_MS);
};
export const recovered = async (target: Target): Promise<void> => {
  for (const name of Object.keys(target.run().apps)) await target.well(name, WELL_MS);
};

/** At the end of a run: what follows counts on a stack that is whole. False where it is not. */
export const calm = async (target: Target, tell: (text: string) => void): Promise<boolean> => {
  try {
    await heal(target);
    await recovered(target);
    await quietOf(target, CALM_MS, tell);
    return true;
  } catch (error) {
    tell(`the stack is not calm: ${(error as Error).message}`);
    return false;
  }
};
