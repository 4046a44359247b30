// The routes of clients and their segments.
import type { PoolClient } from "pg";
import { missing } from "../../../../modules/base/refusal.ts";
import { archiveClient } from "../../../../modules/catalog/clients/archive.ts";
import { changeClient } from "../../../../modules/catalog/clients/change.ts";
import { changeSegment } from "../../../../modules/catalog/clients/change-segment.ts";
import {
  clientRows,
  readClient,
  readSegments,
  type ShownRow,
} from "../../../../modules/catalog/clients/client-reads.ts";
import { createClient } from "../../../../modules/catalog/clients/create.ts";
import { createSegment } from "../../../../modules/catalog/clients/create-segment.ts";
import { newestEvents } from "../../../../modules/figures/rollups/rollup-reads.ts";
import * as contracts from "../../contract/clients/clients.ts";
import { defined } from "../../request/accept.ts";
import { formerMonthState } from "../../request/range.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

const NEWEST_MS = 1_000;
/** Once a change has its moment, its transaction has half a second. */
const NEWEST_OF_CHANGED_MS = 250;

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => {
  /** Adds what is not in Postgres; without it while it cannot be asked. */
  const complete = async (rows: readonly ShownRow[], mostMs: number): Promise<readonly ShownRow[]> => {
    const state = formerMonthState(Date.now());
    const ids = rows.map(({ id }) => id as number);
    const newest = await newestEvents(clickhouse, ids, mostMs).catch(() => new Map<number, number>());
    return rows.map((row) => ({ ...row, last_event_at: newest.get(row.id) ?? null, month_state: state }));
  };
  const changed = async (tx: PoolClient, clientId: number, fields: readonly string[]): Promise<ShownRow> =>
    (await complete([await shownOf(tx, clientId, [clientId], fields)], NEWEST_OF_CHANGED_MS))[0]!;

  return [
    route(contracts.listClients, ({ list, query }) => list(clientRows(query), (rows) => complete(rows, NEWEST_MS))),

    route(contracts.createClient, ({ write, body, fields }) =>
      write(
        (work) => createClient(work, defined(body)),
        async (id, { tx }) => ({
          body: await changed(tx, id, fields),
          headers: { Location: `/api/clients/${id}` },
        }),
      ),
    ),

    route(contracts.readClient, async ({ read, params, fields }) => {
      const row = await read((tx, { clients }) => shownOf(tx, params.id, clients, fields));
      return { body: (await complete([row], NEWEST_MS))[0]! };
    }),

    route(contracts.changeClient, ({ write, params, body, fields, version }) => {
      const { version: _, confirm_retention = false, ...patch } = defined(body);
      const change = { client_id: params.id, patch: defined(patch), version, confirm_retention };
      return write(
        (work) => changeClient(work, change),
        async (_, { tx }) => ({ body: await changed(tx, params.id, fields) }),
      );
    }),

    route(contracts.archiveClient, ({ write, params, version }) =>
      write(
        (work) => archiveClient(work, { client_id: params.id, version }),
        () => ({}),
      ),
    ),

    ...segmentRoutes,
  ];
};

/** Throws RefusalError: missing. */
const shownOf = async (
  tx: PoolClient,
  clientId: number,
  clients: readonly number[],
  fields: readonly string[],
): Promise<ShownRow> => {
  const found = await readClient(tx, clientId, clients, fields);
  if (found === undefined) throw missing();
  return found.shown;
};

const segmentRoutes: readonly Route[] = [
  route(contracts.listSegments, ({ read, params }) =>
    read(async (tx, { clients }) => {
      if ((await readClient(tx, params.id, clients, [])) === undefined) throw missing();
      return { body: { data: await readSegments(tx, params.id, clients) } };
    }),
  ),

  route(contracts.createSegment, ({ write, params, body }) =>
    write(
      (work) => createSegment(work, { client_id: params.id, segment: body }),
      async (_, { tx, scope }) => ({
        body: await segmentOf(tx, params.id, scope.clients, body.code),
        headers: { Location: `/api/clients/${params.id}/segments/${body.code}` },
      }),
    ),
  ),

  route(contracts.changeSegment, ({ write, params, body, version }) => {
    const { version: _, ...patch } = defined(body);
    return write(
      (work) => changeSegment(work, { client_id: params.id, code: params.code, patch: defined(patch), version }),
      async (_, { tx, scope }) => ({ body: await segmentOf(tx, params.id, scope.clients, params.code) }),
    );
  }),
];

const segmentOf = async (tx: PoolClient, clientId: number, clients: readonly number[], code: string) =>
  (await readSegments(tx, clientId, clients)).find((segment) => segment.code === code);
