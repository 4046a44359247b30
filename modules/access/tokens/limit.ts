// Changes the request limit of an ingest token.
import { missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { readToken } from "./token-reads.ts";
import { limitTokenWithin } from "./tokens.ts";

export interface TokenLimit {
  readonly token_id: number;
  /** From 1 to 10,000. */
  readonly requests_a_minute: number;
}

/**
 * Takes effect in every process within a second. Throws RefusalError: missing unless it is a live
 * ingest token.
 */
export const changeTokenLimit = async (work: Work, { token_id, requests_a_minute }: TokenLimit): Promise<void> => {
  const { tx, scope, audit } = work;
  const row = await readToken(tx, { token_id, kind: "ingest" }, scope, ["client_id", "requests_a_minute"]);
  // Another process may have revoked the token since it was read.
  if (row === undefined || !(await limitTokenWithin(tx, token_id, requests_a_minute))) throw missing();
  const [before, after] = [{ requests_a_minute: row.requests_a_minute }, { requests_a_minute }];
  await audit({ action: "token.limited", client_id: row.client_id, entity: `token:${token_id}`, before, after });
};
