// Devices that changed their consent: marks the minutes of their events, so that older figures
// follow the consent of today.
import type { Pool } from "pg";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { givenRows } from "../../../infra/postgres/columns.ts";
import { transaction } from "../../../infra/postgres/sql.ts";
import { type ConsentMark, consentMarkColumns } from "../../../sinks/consent/table.ts";
import { markMinutes } from "./mark-minutes.ts";

const oldest = "select client_id, did, sequence from consent_marks order by sequence limit $1";
/** A device that changed its consent again meanwhile stays marked. */
const cleared = `
delete from consent_marks as mark using ${givenRows(consentMarkColumns)}
where mark.client_id = given.client_id and mark.did = given.did and mark.sequence = given.sequence`;
const keeper = { role: "tributary_keeper" } as const;

/**
 * Returns the minutes of devices that ever refused analytics; a first consent changes no figure.
 * Reads the events of the named clients once, whatever the number of devices.
 */
const touchedMinutes = `
select distinct client_id, toUnixTimestamp(toStartOfMinute(ts)) as minute from events
where client_id in {clients:Array(UInt32)} and (client_id, did) in (
  select client_id, did from consent_changes
  where client_id in {clients:Array(UInt32)} and did in {dids:Array(String)} and not bitTest(mask, 0))`;

/**
 * Takes the `most` devices that wait longest and returns how many there were. After a crash they
 * are taken again and mark the same minutes. Throws the error of either store, and all of them
 * stay.
 */
export const markWithdrawn = async (pool: Pool, clickhouse: Clickhouse, most: number): Promise<number> => {
  const waiting = await transaction(pool, null, async (tx) => (await tx.query<ConsentMark>(oldest, [most])).rows, {
    ...keeper,
    isReadOnly: true,
  });
  if (waiting.length === 0) return 0;
  const answer = await clickhouse.query({
    query: touchedMinutes,
    query_params: {
      clients: [...new Set(waiting.map(({ client_id }) => client_id))],
      dids: waiting.map(({ did }) => did),
    },
    format: "JSONCompactEachRow",
  });
  await markMinutes(pool, await answer.json<readonly [number, number]>());
  const given = waiting.map(({ client_id, did, sequence }) => ({ client_id, did, sequence: sequence.toString() }));
  await transaction(pool, null, (tx) => tx.query(cleared, [JSON.stringify(given)]), keeper);
  return waiting.length;
};
