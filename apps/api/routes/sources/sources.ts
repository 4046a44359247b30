// The routes of external sources.
import { rowInScope } from "../../../../modules/access/scope.ts";
import { changeSource } from "../../../../modules/intake/sources/change.ts";
import { createSource } from "../../../../modules/intake/sources/create.ts";
import { rotateKey } from "../../../../modules/intake/sources/rotate-key.ts";
import { sourceRows } from "../../../../modules/intake/sources/source-reads.ts";
import { trySource } from "../../../../modules/intake/sources/try-source.ts";
import * as contracts from "../../contract/sources/sources.ts";
import { type ApiPorts, type Route, route } from "../../route.ts";

export const routes = ({ keyring, hosts }: Pick<ApiPorts, "keyring" | "hosts">): readonly Route[] => [
  route(contracts.listSources, ({ list, query }) => list(sourceRows(query))),

  route(contracts.createSource, ({ write, body, fields }) =>
    write(
      (work) => createSource(work, keyring, { ...body, state: "draft" }),
      async ({ source_id }, { tx, scope }) => ({
        body: await rowInScope(tx, sourceRows({ source_id }), scope, fields),
        headers: { Location: `/api/sources/src_${source_id}` },
      }),
    ),
  ),

  route(contracts.changeSource, ({ write, params, input, fields, version }) => {
    const { secret, pull_secret, ...patch } = input;
    const change = { source_id: params.id, patch, secrets: { secret, pull_secret }, version };
    return write(
      (work) => changeSource(work, keyring, change),
      async ({ source_id }, { tx, scope }) => ({
        body: await rowInScope(tx, sourceRows({ source_id }), scope, fields),
      }),
    );
  }),

  route(contracts.rotateKey, ({ write, params }) =>
    write(
      (work) => rotateKey(work, params.id, hosts.ingest),
      (body) => ({ body, repeat: { key: null, url: null, secrets: "shown_once" } }),
    ),
  ),

  // Uses a write, because the audit records that payloads were read.
  route(contracts.trySource, ({ write, params, body }) =>
    write(
      (work) => trySource(work, keyring, { source_id: params.id, draft: body }),
      (results) => ({ body: { results } }),
    ),
  ),
];
