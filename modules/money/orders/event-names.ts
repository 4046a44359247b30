// Finds the log's id of an event. Two clients may have sent the same id.
import { pageEventId, sentEventId } from "../../../domain/ids.ts";
import type { Clickhouse } from "../../../infra/clickhouse/client.ts";
import { scopeOf } from "../../../infra/clickhouse/query.ts";
import { eventsOfPages, ownersOf, type Times } from "../../../sinks/analytics/reads.ts";

export interface EventName {
  readonly client_id: number;
  readonly event_id: string;
}
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/**
 * The ids of an event that can be computed: for each client the id derived from the sender's id,
 * that of a page's view with the same one, then the log's own id. Ids of conversions of pages are
 * looked up.
 */
export const eventNames = (id: string, clientIds: readonly number[]): readonly EventName[] =>
  clientIds.flatMap((client_id) =>
    [sentEventId(client_id, id), pageEventId(client_id, id), ...(UUID.test(id) ? [id] : [])].map((event_id) => ({
      ...{ client_id, event_id },
    })),
  );

/**
 * The stored event with that id for each client that has one, including copies, with its times. The
 * sender's id has precedence, and among the events of pages with it a conversion. Empty if no such
 * event was sent, or if it is not stored yet.
 */
export const storedAs = async (
  clickhouse: Clickhouse,
  id: string,
  clientIds: readonly number[],
): Promise<readonly (EventName & Times)[]> => {
  if (clientIds.length === 0) return [];
  const names = eventNames(id, clientIds);
  const eventIds = [...new Set(names.map(({ event_id }) => event_id))];
  const stored = await ownersOf(clickhouse, scopeOf(...clientIds), eventIds);
  const isSure = (clientId: number): boolean =>
    stored.some(
      ({ client_id, event_id }) =>
        client_id === clientId && (event_id === id || event_id === sentEventId(clientId, id)),
    );
  const unsure = clientIds.filter((clientId) => !isSure(clientId));
  const ofPages = unsure.length === 0 ? [] : await eventsOfPages(clickhouse, scopeOf(...unsure), [id]);
  const storedOf = ({ client_id, event_id }: EventName) =>
    stored.filter((one) => one.client_id === client_id && one.event_id === event_id);
  return clientIds.flatMap((clientId) =>
    [
      ...ofPages.filter(({ client_id }) => client_id === clientId),
      ...names.filter(({ client_id }) => client_id === clientId).flatMap(storedOf),
    ].slice(0, 1),
  );
};
