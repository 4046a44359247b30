// Hours that an older computation wrote: their minutes are marked, so that figures which it did not
// know are filled where an installation runs already.

import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { HOUR, type HourOf, listed } from "./hours.ts";
import { markMinutes } from "./mark-minutes.ts";
import { ROLLUP_REVISION } from "./table.ts";

/** The hour behind which the next search begins: searches go from the newest to the oldest. */
export type Searched = HourOf | "from the newest";

const outdatedHours = async (clickhouse: Clickhouse, behind: Searched, most: number): Promise<readonly HourOf[]> => {
  // Numbers alone stand in the text. A group that only an older computation wrote makes its hour an
  // outdated one, also where a process of before wrote it later.
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
 * Marks the minutes of at most `hours` outdated hours. Answers where to go on, or null when there
 * is none left. An hour is marked once in a search: what stays outdated does not stop it.
 */
export const markOutdated = async (
  pool: Pool,
  clickhouse: Clickhouse,
  behind: Searched,
  hours: number,
): Promise<Searched | null> => {
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
