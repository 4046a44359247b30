// Finds hours that an older revision of the computation wrote and marks their minutes, so that
// newly added figures are filled in an existing installation.

import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { HOUR, type HourOf, listed } from "./hours.ts";
import { markMinutes } from "./mark-minutes.ts";
import { ROLLUP_REVISION } from "./table.ts";

/**
 * The hour after which the next search continues; a search goes from the newest hour to the oldest.
 */
export type SearchStart = HourOf | "from the newest";

const outdatedHours = async (clickhouse: Clickhouse, behind: SearchStart, most: number): Promise<readonly HourOf[]> => {
  // The text is safe because it contains only numbers. An hour is outdated if any group of it has
  // an older revision, even if a process of an older release wrote that group later.
  const older =
    behind === "from the newest" ? "" : `and (toUnixTimestamp(bucket), client_id) < (${behind[1]}, ${behind[0]})`;
  const answer = await clickhouse.query({
    query: `select client_id, toUnixTimestamp(bucket) as hour from rollups final where grain = 'hour' ${older}
      group by client_id, bucket having min(revision) < ${ROLLUP_REVISION}
      order by hour desc, client_id desc limit ${Math.trunc(most)}`,
    format: "JSONCompactEachRow",
  });
  return (await answer.json<readonly [number, number]>()).map(([client, hour]) => [Number(client), Number(hour)]);
};

/**
 * Marks the minutes of at most `hours` outdated hours. Returns where to continue, or null when none
 * is left. A search marks each hour once, so an hour that stays outdated does not stop it.
 */
export const markOutdated = async (
  pool: Pool,
  clickhouse: Clickhouse,
  behind: SearchStart,
  hours: number,
): Promise<SearchStart | null> => {
  const found = await outdatedHours(clickhouse, behind, hours);
  if (found.length === 0) return null;
  const answer = await clickhouse.query({
    query: `select distinct client_id, toUnixTimestamp(bucket) as minute from rollups
      where grain = 'minute' and (client_id, bucket) in (${listed(found, 0, HOUR, 60)})`,
    format: "JSONCompactEachRow",
    clickhouse_settings: { max_query_size: "4000000" },
  });
  await markMinutes(pool, await answer.json<readonly [number, number]>());
  return found.at(-1)!;
};
