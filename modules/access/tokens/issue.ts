// Issues a token to a client, a partner or the operator.

import { RefusalError } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { checkOwner } from "../standing.ts";
import { createTokenWithin, type NewToken, prefixOf, REQUESTS_A_MINUTE } from "./tokens.ts";

export interface IssuedToken {
  readonly token_id: number;
  /** Shown once, because only its hash is stored. */
  readonly token: string;
}

/** Roles that may raise the request limit of a token. */
const MAY_RAISE = ["admin", "operator"];

/**
 * A new upload token replaces the partner's. Throws RefusalError: missing, conflict
 * `client_archived`, `partner_archived`, forbidden `shared_partner`, and forbidden if the caller
 * may not raise the request limit.
 */
export const issueToken = async (work: Work, wanted: NewToken): Promise<IssuedToken> => {
  const { tx, act, audit } = work;
  const { kind, label, client_id = null, partner_id = null } = wanted;
  const isOwned = client_id !== null || partner_id !== null;
  const { client_ids } = isOwned ? await checkOwner(work, { client_id, partner_id }) : { client_ids: null };
  if (!MAY_RAISE.includes(act.role) && (wanted.requests_a_minute ?? 0) > REQUESTS_A_MINUTE) throw byAdminAlone();
  const { token_id, token } = await createTokenWithin(tx, { ...wanted, client_ids });
  const requests_a_minute = kind === "ingest" ? (wanted.requests_a_minute ?? REQUESTS_A_MINUTE) : null;
  // The audit identifies the token by `prefix`, because it redacts fields named token.
  const after = { kind, prefix: prefixOf(token), client_id, partner_id, label, requests_a_minute };
  await audit({ action: "token.created", client_id, entity: `token:${token_id}`, after });
  return { token_id, token };
};

const byAdminAlone = (): RefusalError => {
  const message = `more than ${REQUESTS_A_MINUTE} a minute are given by an admin`;
  return new RefusalError([{ kind: "forbidden", code: "forbidden", path: "/requests_a_minute", message }]);
};
