// Issues a token: to a client, a partner, or to the operator.

import { RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { checkOwner } from "../standing.ts";
import { createTokenWithin, type NewToken, prefixOf, REQUESTS_A_MINUTE } from "./tokens.ts";

export interface IssuedToken {
  readonly token_id: number;
  /** Shown once: only its hash is kept. */
  readonly token: string;
}

/** Who may give a token more requests a minute than all have. */
const MAY_RAISE = ["admin", "operator"];

/**
 * A new upload token takes the place of the partner's. Throws RefusalError: missing, conflict
 * `client_archived`, `partner_archived`, and forbidden where the caller may not give as many
 * requests a minute.
 */
export const issueToken = async (work: Work, wanted: NewToken): Promise<IssuedToken> => {
  const { tx, act, audit } = work;
  const { kind, label, client_id = null, partner_id = null } = wanted;
  if (client_id !== null || partner_id !== null) await checkOwner(work, { client_id, partner_id });
  if (!MAY_RAISE.includes(act.role) && (wanted.requests_a_minute ?? 0) > REQUESTS_A_MINUTE) throw byAdminAlone();
  const { token_id, token } = await createTokenWithin(tx, wanted);
  const requests_a_minute = kind === "ingest" ? (wanted.requests_a_minute ?? REQUESTS_A_MINUTE) : null;
  // `prefix` says which one it is; what is called a token is redacted in the audit.
  const after = { kind, prefix: prefixOf(token), client_id, partner_id, label, requests_a_minute };
  await audit({ action: "token.created", client_id, entity: `token:${token_id}`, after });
  return { token_id, token };
};

const byAdminAlone = (): RefusalError => {
  const message = `more than ${REQUESTS_A_MINUTE} a minute are given by an admin`;
  return new RefusalError([{ kind: "forbidden", code: "forbidden", path: "/requests_a_minute", message }]);
};
