// The routes of tokens with which clients and partners send.
import { issueToken } from "../../../../modules/access/tokens/issue.ts";
import { endToken } from "../../../../modules/access/tokens/revoke.ts";
import { readToken, tokenRows } from "../../../../modules/access/tokens/token-reads.ts";
import * as contracts from "../../contract/access/tokens.ts";
import { type Route, route } from "../../route.ts";

export const routes = (): readonly Route[] => [
  route(contracts.listTokens, ({ list, query }) => list(tokenRows(query))),

  route(contracts.createToken, ({ write, body, input, fields }) =>
    write(
      (work) => issueToken(work, { label: `${body.kind} token made in the platform API`, ...input }),
      async ({ token_id, token }, { tx, scope }) => {
        const row = await readToken(tx, { token_id }, scope, fields);
        return {
          body: { ...row, token },
          repeat: { ...row, token: null, secrets: "shown_once" },
          headers: { Location: `/api/tokens/${token_id}` },
        };
      },
    ),
  ),

  route(contracts.revokeToken, ({ write, params }) => write((work) => endToken(work, params.id))),
];
