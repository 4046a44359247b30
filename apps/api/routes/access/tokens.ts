// The routes of tokens by which clients and partners send.
import { Problem } from "../../../../infra/http/problem.ts";
import { partnerStanding } from "../../../../modules/access/invitations/partner-standing.ts";
import { readToken, tokenRows } from "../../../../modules/access/tokens/token-reads.ts";
import {
  createTokenWithin,
  type NewToken,
  REQUESTS_A_MINUTE,
  revokeTokenWithin,
} from "../../../../modules/access/tokens/tokens.ts";
import { readClient } from "../../../../modules/catalog/clients/client-reads.ts";
import * as contracts from "../../contract/access/tokens.ts";
import { defined, notFound } from "../../request/accept.ts";
import { type Route, route, type Work } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listTokens, ({ list, query }) => list(tokenRows(query))),

  route(contracts.createToken, ({ write, body, role, fields }) =>
    write(async (work) => {
      const { tx, scope, audit } = work;
      const label = `${body.kind} token made in the platform API`;
      const wanted: NewToken = { label, ...defined(body) };
      await checkOwner(work, wanted);
      if (role !== "admin" && (wanted.requests_a_minute ?? 0) > REQUESTS_A_MINUTE) throw byAdminAlone();
      const { token_id: id, token } = await createTokenWithin(tx, wanted);
      const row = (await readToken(tx, id, scope, fields))!;
      // `prefix` says which one it is; what is called a token is redacted in the audit.
      const { kind, prefix, client_id, partner_id, requests_a_minute } = row;
      await audit({
        action: "token.created",
        client_id,
        entity: `token:${id}`,
        after: { kind, prefix, client_id, partner_id, label: row.label, requests_a_minute },
      });
      return {
        body: { ...row, token },
        repeat: { ...row, token: null, secrets: "shown_once" },
        headers: { Location: `/api/tokens/${id}` },
      };
    }),
  ),

  route(contracts.revokeToken, ({ write, params }) =>
    write(async ({ tx, scope, audit }) => {
      const row = await readToken(tx, params.id, scope, ["kind", "prefix", "client_id", "partner_id", "label"]);
      // Another request may have revoked it since it was read.
      if (row === undefined || !(await revokeTokenWithin(tx, params.id))) throw notFound();
      await audit({ action: "token.revoked", client_id: row.client_id, entity: `token:${params.id}`, before: row });
      return {};
    }),
  ),
];

/** Throws Problem 404 for an owner that the caller does not see, 409 for an archived one. */
const checkOwner = async ({ tx, scope }: Work, { client_id, partner_id }: NewToken): Promise<void> => {
  const status =
    client_id !== undefined
      ? (await readClient(tx, client_id, scope.clients, []))?.state.status
      : (await partnerStanding(tx, partner_id!, scope.clients))?.status;
  if (status === undefined) throw notFound();
  const what = client_id !== undefined ? "client" : "partner";
  if (status === "archived") throw new Problem("conflict", `this ${what} is archived`, { code: `${what}_archived` });
};

const byAdminAlone = (): Problem => {
  const detail = `more than ${REQUESTS_A_MINUTE} a minute are given by an admin`;
  return new Problem("forbidden", detail, {
    errors: [{ pointer: "/requests_a_minute", code: "forbidden", detail }],
  });
};
