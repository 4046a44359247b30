// The routes that say whether events of a client come in, and whether its pixel works.
import { within } from "../../../../infra/runtime/timing/time-limit.ts";
import { findingsOf } from "../../../../modules/catalog/pixel/findings.ts";
import { openPixel } from "../../../../modules/catalog/pixel/open-pixel.ts";
import { readSightings } from "../../../../modules/catalog/pixel/sightings.ts";
import { activityOf, newestEvents, purchasesOf } from "../../../../modules/figures/rollups/rollup-reads.ts";
import { ingestPath } from "../../../../modules/intake/path/ingest-path.ts";
import { readIngestStatus, readPixelActivity } from "../../contract/clients/pixel.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

/** Screens ask again and again: better no answer than a late one. */
const MOST_MS = 1_500;
const WEEK_MS = 7 * 24 * 3_600_000;
const FLOWING_MS = 15 * 60_000;
const STATUS = { operational: "ok", primary_down: "degraded", both_down: "down" } as const;

export const routes = ({ pool, clickhouse }: Pick<ApiPorts, "pool" | "clickhouse">): readonly Route[] => [
  route(readPixelActivity, async (ask) => {
    const { id } = ask.params;
    const config = await ask.read((tx, { clients }) => openPixel(tx, id, clients));
    const since = Date.now() - WEEK_MS;
    const [sightings, known] = await Promise.all([
      ask.read((tx, { clients }) => readSightings(tx, id, clients, since)),
      Promise.all([activityOf(clickhouse, id, "pixel", MOST_MS), purchasesOf(clickhouse, id, MOST_MS)]).catch(
        () => undefined,
      ),
    ]);
    if (known === undefined)
      return { body: { has_activity: false, events_last_hour: 0, last_seen_at: null, checked: false, findings: [] } };
    const [activity, purchases] = known;
    const has_activity = activity.events_last_hour > 0;
    const findings = findingsOf({ ...activity, purchases, sightings }, config);
    return { body: { has_activity, ...activity, checked: true, findings } };
  }),

  route(readIngestStatus, async (ask) => {
    const { id } = ask.params;
    await ask.read((tx, { clients }) => openPixel(tx, id, clients));
    const asked = Promise.all([
      within(MOST_MS, ingestPath(pool), "the way of events is not known in time"),
      newestEvents(clickhouse, [id], MOST_MS),
    ]);
    const known = await asked.catch(() => undefined);
    if (known === undefined)
      return { body: { backbone_status: "unknown", events_flowing: false, last_event_at: null } };
    const [{ state }, newest] = known;
    const last_event_at = newest.get(id) ?? null;
    const events_flowing = last_event_at !== null && Date.now() - last_event_at <= FLOWING_MS;
    return { body: { backbone_status: state === null ? "unknown" : STATUS[state], events_flowing, last_event_at } };
  }),
];
