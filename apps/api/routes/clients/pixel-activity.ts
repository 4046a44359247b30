// The routes of the incoming events of a client, and of the activity of its pixel.
import { pixelActivity } from "../../../../modules/catalog/pixel/activity.ts";
import { openPixel } from "../../../../modules/catalog/pixel/open-pixel.ts";
import { newestEvents } from "../../../../modules/figures/rollups/rollup-reads.ts";
import { ingestStatus } from "../../../../modules/intake/path/ingest-status.ts";
import { readIngestStatus, readPixelActivity } from "../../contract/clients/pixel.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ pool, clickhouse }: Pick<ApiPorts, "pool" | "clickhouse">): readonly Route[] => [
  route(readPixelActivity, async ({ read, params }) => ({ body: await pixelActivity(clickhouse, read, params.id) })),

  route(readIngestStatus, async ({ read, params: { id } }) => {
    await read((tx, { clients }) => openPixel(tx, id, clients));
    const newest = async (mostMs: number) => (await newestEvents(clickhouse, [id], mostMs)).get(id) ?? null;
    return { body: await ingestStatus(pool, newest) };
  }),
];
