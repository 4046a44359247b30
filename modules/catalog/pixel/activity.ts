// Reports whether the pixel of a client sends events, and what is wrong if it does not.
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import type { ScopedRead } from "../../base/work.ts";
import { activityOf, weekOf } from "../../figures/rollups/rollup-reads.ts";
import { awaitedTypes, findingsOf } from "./findings.ts";
import { openPixel } from "./open-pixel.ts";
import { readSightings } from "./sightings.ts";

/** Screens ask every few seconds: no answer is better than a late one. */
const MOST_MS = 1_500;
const WEEK_MS = 7 * 24 * 3_600_000;

const UNKNOWN = { has_activity: false, events_last_hour: 0, last_seen_at: null, checked: false, findings: [] };

/** `checked` is false while ClickHouse does not answer in time. Throws RefusalError: missing. */
export const pixelActivity = async (clickhouse: Clickhouse, read: ScopedRead, clientId: number) => {
  const config = await read((tx, { clients }) => openPixel(tx, clientId, clients));
  const since = Date.now() - WEEK_MS;
  const figures = Promise.all([
    activityOf(clickhouse, clientId, "pixel", MOST_MS),
    weekOf(clickhouse, { clientId, types: awaitedTypes(config) }, MOST_MS),
  ]).catch(() => undefined);
  const sightings = await read((tx, { clients }) => readSightings(tx, clientId, clients, since));
  const known = await figures;
  if (known === undefined) return UNKNOWN;
  const [activity, week] = known;
  const findings = findingsOf({ ...activity, week, sightings }, config);
  return { has_activity: activity.events_last_hour > 0, ...activity, checked: true, findings };
};
