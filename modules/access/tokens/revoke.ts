// Revokes a token in every process within a second.
import { missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { checkWholePartner } from "../standing.ts";
import { readToken } from "./token-reads.ts";
import { revokeTokenWithin } from "./tokens.ts";

/** The fields that the audit keeps. */
const FIELDS = ["kind", "prefix", "client_id", "partner_id", "label", "requests_a_minute"];

/**
 * The operator's command line also revokes tokens of operators. Throws RefusalError: missing, also
 * if the token is revoked already; forbidden `shared_partner`.
 */
export const endToken = async (work: Work, tokenId: number): Promise<void> => {
  const { tx, scope, act, audit } = work;
  const filter = { token_id: tokenId, isOfAnyKind: act.role === "operator" };
  const row = await readToken(tx, filter, scope, FIELDS);
  if (row?.partner_id != null) await checkWholePartner(work, row.partner_id);
  // Another request may have revoked the token since it was read.
  if (row === undefined || !(await revokeTokenWithin(tx, tokenId))) throw missing();
  await audit({ action: "token.revoked", client_id: row.client_id, entity: `token:${tokenId}`, before: row });
};
