// The stack after its last fault: healed, every process well, and the whole log read.
import { until } from "../../infra/runtime/timing/wait-until.ts";
import { readGroups } from "./hosting.ts";
import { type Target, urlsOf } from "./target.ts";

/** L1 allows 60 s; the wait continues beyond that, so that the other laws can be checked. */
export const LONGEST_QUIET_MS = 180_000;
const WELL_MS = 120_000;
const CALM_MS = 60_000;
/** A group that catches up more slowly is printed. */
const SLOW_SECONDS = 3;

/**
 * Waits until every group has read everything that its topic has now, in the order of the pipeline,
 * and rollups show the stored rows.
 */
export const quietOf = async (target: Target, deadlineMs: number, tell: (text: string) => void): Promise<void> => {
  // Events that an edge accepted while the log was away reach the log late.
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
        // Only records that were there at the call count; in a running installation later ones
        // always follow.
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
 * The last fault is healed when its servers answer again and the network is clear. The recovery of
 * the product is then timed (L1).
 */
export const heal = async (target: Target): Promise<void> => {
  for (const proxy of Object.values(target.proxies)) proxy.weather({});
  for (const name of Object.keys(target.run().services)) await target.well(name, WELL_MS);
};
export const recovered = async (target: Target): Promise<void> => {
  for (const name of Object.keys(target.run().apps)) await target.well(name, WELL_MS);
};

/**
 * Heals at the end of a run, because later steps need a whole stack. Returns false if it does not
 * heal.
 */
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
