// The routes of external sources.
import { Problem } from "../../../../infra/http/problem.ts";
import { pageOfRows } from "../../../../infra/postgres/rows.ts";
import { openClient } from "../../../../modules/catalog/clients/open-client.ts";
import * as sources from "../../../../modules/intake/sources/save-source.ts";
import { sourceRows } from "../../../../modules/intake/sources/source-reads.ts";
import { tryMapping } from "../../../../modules/intake/sources/try-mapping.ts";
import * as contracts from "../../contract/sources/sources.ts";
import { defined, fault, notFound } from "../../request/accept.ts";
import { type ApiPorts, type Ask, type Route, route, type Work } from "../../route.ts";

export const routes = ({ keyring }: Pick<ApiPorts, "keyring">): readonly Route[] => [
  route(contracts.listSources, ({ list, query }) => list(sourceRows(query))),

  route(contracts.createSource, ({ write, body, fields }) =>
    write(async (work) => {
      const { client_id, secret, pull_secret, ...given } = body;
      await openClient(work, client_id);
      const settings = { ...given, state: "draft" as const };
      const made = await sources
        .createSource(work.tx, client_id, settings, { secret, pull_secret }, keyring)
        .catch(asProblem);
      await work.audit({ action: "source.created", client_id, entity: entity(made), after: settings });
      return { body: await shown(work, made, fields), headers: { Location: `/api/sources/src_${made.source_id}` } };
    }),
  ),

  route(contracts.changeSource, ({ write, params, body, fields, checkVersion }) =>
    write(async (work) => {
      const { version: _, secret, pull_secret, ...patch } = body;
      const before = await toChange(work, params.id);
      checkVersion(before.version);
      const given = defined(patch);
      const after = await sources
        .changeSource(work.tx, before, given, { secret, pull_secret }, keyring)
        .catch(asProblem);
      const hasNew = { secret: secret !== undefined, pull_secret: pull_secret !== undefined };
      const { client_id } = before;
      await work.audit({
        action: "source.updated",
        client_id,
        entity: entity(before),
        before,
        after: { ...after, replaced: Object.entries(hasNew).flatMap(([name, is]) => (is ? [name] : [])) },
      });
      return { body: await shown(work, before, fields) };
    }),
  ),

  route(contracts.rotateKey, ({ write, params }) =>
    write(async (work) => {
      const source = await toChange(work, params.id);
      const key = await sources.rotateSourceKey(work.tx, source);
      await work.audit({ action: "source.key_rotated", client_id: source.client_id, entity: entity(source) });
      return {
        body: { key, url: `/postback/external/src_${source.source_id}?key=${key}` },
        repeat: { key: null, url: null, secrets: "shown_once" },
      };
    }),
  ),

  // In a write, for what payloads say is looked at: that is written down.
  route(contracts.trySource, ({ write, params, body }) =>
    write(async ({ tx, scope, audit }) => {
      const source = await sources.sourceToChange(tx, params.id, scope.clients);
      if (source === undefined) throw notFound();
      const results = await tryMapping(tx, source, body, keyring);
      await audit({ action: "source.tried", client_id: source.client_id, entity: entity(source) });
      return { body: { results } };
    }),
  ),
];

/** Throws Problem 404, and 409 when its client is archived. */
const toChange = async (work: Work, sourceId: number): Promise<sources.SavedSource> => {
  const found = await sources.sourceToChange(work.tx, sourceId, work.scope.clients);
  if (found === undefined) throw notFound();
  await openClient(work, found.client_id);
  return found;
};

const entity = ({ source_id }: Pick<sources.SavedSource, "source_id">): string => `source:src_${source_id}`;

const shown = async (
  { tx, scope }: Work,
  { source_id }: Pick<sources.SavedSource, "source_id">,
  names: Ask["fields"],
): Promise<object> => {
  const reading = { names, sort: "name", clients: scope.clients };
  return (await pageOfRows(tx, sourceRows({ source_id }), reading, { limit: 1 })).rows[0]!;
};

/** What the rules of sources refuse, with its place. */
const asProblem = (error: unknown): never => {
  if (!(error instanceof sources.SourceRefused)) throw error;
  const { code, field, message } = error;
  if (code !== "slug_taken") throw fault(`/${field}`, code, message);
  throw new Problem("conflict", message, { code, errors: [{ pointer: `/${field}`, code, detail: message }] });
};
