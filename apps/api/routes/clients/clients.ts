// The routes of clients and their segments.
import { archiveClient } from "../../../../modules/catalog/clients/archive.ts";
import { changeClient } from "../../../../modules/catalog/clients/change.ts";
import { changeSegment } from "../../../../modules/catalog/clients/change-segment.ts";
import { changedClient, withNewestEvents } from "../../../../modules/catalog/clients/client-detail.ts";
import { clientOf, clientRows, readSegments, segmentOf } from "../../../../modules/catalog/clients/client-reads.ts";
import { createClient } from "../../../../modules/catalog/clients/create.ts";
import { createSegment } from "../../../../modules/catalog/clients/create-segment.ts";
import * as contracts from "../../contract/clients/clients.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => [
  route(contracts.listClients, ({ list, query }) =>
    list(clientRows(query), (rows) => withNewestEvents(clickhouse, rows)),
  ),

  route(contracts.createClient, ({ write, input, fields }) =>
    write(
      (work) => createClient(work, input),
      async (id, { tx }) => ({
        body: await changedClient(tx, clickhouse, id, fields),
        headers: { Location: `/api/clients/${id}` },
      }),
    ),
  ),

  route(contracts.readClient, async ({ read, params, fields }) => {
    const { shown } = await read((tx, { clients }) => clientOf(tx, params.id, clients, fields));
    return { body: (await withNewestEvents(clickhouse, [shown]))[0]! };
  }),

  route(contracts.changeClient, ({ write, params: { id }, input, fields, version }) => {
    const { confirm_retention = false, ...patch } = input;
    return write(
      (work) => changeClient(work, { client_id: id, patch, version, confirm_retention }),
      async (_, { tx }) => ({ body: await changedClient(tx, clickhouse, id, fields) }),
    );
  }),

  route(contracts.archiveClient, ({ write, params, version }) =>
    write((work) => archiveClient(work, { client_id: params.id, version })),
  ),

  ...segmentRoutes,
];

const segmentRoutes: readonly Route[] = [
  route(contracts.listSegments, ({ read, params: { id } }) =>
    read(async (tx, { clients }) => {
      await clientOf(tx, id, clients);
      return { body: { data: await readSegments(tx, id, clients) } };
    }),
  ),

  route(contracts.createSegment, ({ write, params: { id }, body }) =>
    write(
      (work) => createSegment(work, { client_id: id, segment: body }),
      async (_, { tx, scope }) => ({
        body: await segmentOf(tx, id, scope.clients, body.code),
        headers: { Location: `/api/clients/${id}/segments/${body.code}` },
      }),
    ),
  ),

  route(contracts.changeSegment, ({ write, params: { id, code }, input, version }) =>
    write(
      (work) => changeSegment(work, { client_id: id, code, patch: input, version }),
      async (_, { tx, scope }) => ({ body: await segmentOf(tx, id, scope.clients, code) }),
    ),
  ),
];
