// The routes of clients and their segments.

import { Problem } from "../../../../infra/http/problem.ts";
import { revokePendingOf } from "../../../../modules/access/invitations/invitations.ts";
import { revokeTokensOf } from "../../../../modules/access/tokens/tokens.ts";
import { mergePatch } from "../../../../modules/base/merge-patch.ts";
import {
  activeCampaigns,
  type ClientState,
  clientRows,
  hasConversions,
  readClient,
  readSegments,
  type ShownRow,
} from "../../../../modules/catalog/clients/client-reads.ts";
import { lockReference } from "../../../../modules/catalog/reference/open-change.ts";
import { newestEvents } from "../../../../modules/figures/rollups/rollup-reads.ts";
import * as contracts from "../../contract/clients/clients.ts";
import { defined, fault, notFound } from "../../request/accept.ts";
import { formerMonthState } from "../../request/range.ts";
import { type ApiPorts, type Route, route, type Work } from "../../route.ts";

const MOST_SEGMENTS = 200;
const NEWEST_MS = 1_000;
/** What only an admin decides of a client: money, reach and its end. */
const OF_ADMIN = ["plan", "currency", "retention_months", "status"] as const;
/** What a change is compared by; `id` and times follow from it. */
const SETTINGS = [
  ...["name", "status", "currency", "attribution", "hold_days", "fraud", "fallback_url", "retention_months", "plan"],
];

export const routes = ({ clickhouse }: Pick<ApiPorts, "clickhouse">): readonly Route[] => {
  /** Adds what is not in Postgres; without it while it cannot be asked. */
  const complete = async (rows: readonly ShownRow[]): Promise<readonly ShownRow[]> => {
    const state = formerMonthState(Date.now());
    const ids = rows.map(({ id }) => id as number);
    const newest = await newestEvents(clickhouse, ids, NEWEST_MS).catch(() => new Map<number, number>());
    return rows.map((row) => ({ ...row, last_event_at: newest.get(row.id) ?? null, month_state: state }));
  };
  const completeOne = async (row: ShownRow): Promise<ShownRow> => (await complete([row]))[0]!;

  return [
    route(contracts.listClients, ({ list, query }) => list(clientRows(query), complete)),

    route(contracts.createClient, ({ write, body, fields }) =>
      write(async ({ tx, change, audit }) => {
        const saved = await change(
          { clients: [{ client_id: -1, ...(defined(body) as object) }] },
          { slug: "slug_taken" },
        );
        const id = saved.idOf("clients", -1);
        await audit({ action: "client.created", client_id: id, entity: `client:${id}`, after: body });
        const { shown } = (await readClient(tx, id, [id], fields))!;
        return { body: await completeOne(shown), headers: { Location: `/api/clients/${id}` } };
      }),
    ),

    route(contracts.readClient, async ({ read, params, fields }) => {
      const found = await read((tx, { clients }) => readClient(tx, params.id, clients, fields));
      if (found === undefined) throw notFound();
      return { body: await completeOne(found.shown) };
    }),

    route(contracts.changeClient, ({ write, params, body, fields, role, checkVersion }) =>
      write(async (work) => {
        const { tx, scope, change, audit } = work;
        const { version: _, confirm_retention: isConfirmed = false, ...given } = body;
        const patch = defined(given);
        const { state, shown: before } = await clientToChange(work, params.id);
        const denied = OF_ADMIN.find((name) => patch[name] !== undefined);
        if (denied !== undefined && role !== "admin") throw forbidden(`/${denied}`);
        if (state.status === "archived" && patch.status === undefined) throw archived();
        checkVersion(state.version);
        if (patch.currency !== undefined && patch.currency !== before.currency && (await hasConversions(tx, params.id)))
          throw new Problem("conflict", "sales are booked in the currency of before", { code: "currency_in_use" });
        if (patch.retention_months !== undefined && patch.retention_months < before.retention_months && !isConfirmed)
          throw fault("/confirm_retention", "confirmation_needed", "events of before are deleted: confirm that");
        const after = mergePatch(before, patch) as ShownRow;
        const changed = Object.fromEntries(Object.keys(patch).map((name) => [name, after[name]]));
        if (Object.keys(patch).length > 0) {
          await change({ clients: [{ client_id: params.id, ...changed }] });
          await audit({ action: "client.updated", client_id: params.id, entity: entity(params.id), before, after });
        }
        const { shown } = (await readClient(tx, params.id, scope.clients, fields))!;
        return { body: await completeOne(shown) };
      }),
    ),

    route(contracts.archiveClient, ({ write, params, checkVersion }) =>
      write(async (work) => {
        const { tx, change, audit } = work;
        const { state } = await clientToChange(work, params.id);
        checkVersion(state.version);
        if (state.status === "archived") return {};
        const paused = await activeCampaigns(tx, params.id);
        // Before the change, after which little time is left.
        const revoked = await revokeTokensOf(tx, params.id);
        const revoked_invitations = await revokePendingOf(tx, { client_id: params.id });
        await change({
          clients: [{ client_id: params.id, status: "archived" }],
          campaigns: paused.map((campaign_id) => ({ campaign_id, status: "paused" as const })),
        });
        const ended = { revoked_tokens: revoked, revoked_invitations, paused_campaigns: paused };
        const after = { status: "archived", ...ended };
        const before = { status: state.status };
        await audit({ action: "client.archived", client_id: params.id, entity: entity(params.id), before, after });
        return {};
      }),
    ),

    ...segmentRoutes(),
  ];
};

const segmentRoutes = (): readonly Route[] => [
  route(contracts.listSegments, ({ read, params }) =>
    read(async (tx, { clients }) => {
      if ((await readClient(tx, params.id, clients, [])) === undefined) throw notFound();
      return { body: { data: await readSegments(tx, params.id, clients) } };
    }),
  ),

  route(contracts.createSegment, ({ write, params, body }) =>
    write(async (work) => {
      const { tx, scope, change, audit } = work;
      const { state } = await clientToChange(work, params.id);
      if (state.status === "archived") throw archived();
      const known = await readSegments(tx, params.id, scope.clients);
      if (known.some(({ code }) => code === body.code))
        throw new Problem("conflict", "it is there already", { code: "segment_exists" });
      if (known.length >= MOST_SEGMENTS)
        throw new Problem("conflict", `a client has at most ${MOST_SEGMENTS}`, { code: "too_many_segments" });
      await change({ segments: [{ client_id: params.id, ...body }] });
      const made = await segmentOf(work, params.id, body.code);
      await audit({
        action: "segment.created",
        client_id: params.id,
        entity: `segment:${params.id}:${body.code}`,
        after: body,
      });
      return { body: made, headers: { Location: `/api/clients/${params.id}/segments/${body.code}` } };
    }),
  ),

  route(contracts.changeSegment, ({ write, params, body, checkVersion }) =>
    write(async (work) => {
      const { change, audit } = work;
      const { version: _, ...patch } = body;
      const { state } = await clientToChange(work, params.id);
      const before = await segmentOf(work, params.id, params.code);
      if (state.status === "archived") throw archived();
      checkVersion(before.version);
      if (Object.keys(patch).length > 0) {
        await change({ segments: [{ client_id: params.id, code: params.code, ...defined(patch) }] });
        const { name, active } = before;
        await audit({
          action: "segment.updated",
          client_id: params.id,
          entity: `segment:${params.id}:${params.code}`,
          before: { name, active },
          after: { name, active, ...defined(patch) },
        });
      }
      return { body: await segmentOf(work, params.id, params.code) };
    }),
  ),
];

const entity = (clientId: number): string => `client:${clientId}`;
const archived = (): Problem => new Problem("conflict", "this client is archived", { code: "client_archived" });
const forbidden = (pointer: string): Problem => {
  const detail = "only an admin changes this";
  return new Problem("forbidden", detail, { errors: [{ pointer, code: "forbidden", detail }] });
};

/** The client and no other change of it until the commit. Throws Problem 404. */
const clientToChange = async (
  { tx, scope }: Work,
  clientId: number,
): Promise<{ readonly state: ClientState; readonly shown: ShownRow }> => {
  await lockReference(tx);
  const found = await readClient(tx, clientId, scope.clients, SETTINGS);
  if (found === undefined) throw notFound();
  return found;
};

const segmentOf = async ({ tx, scope }: Work, clientId: number, code: string) => {
  const found = (await readSegments(tx, clientId, scope.clients)).find((segment) => segment.code === code);
  if (found === undefined) throw notFound();
  return found;
};
