// The partner that a use case changes, and the refusals that all of these share.
import { conflict, missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { lockReference } from "../reference/open-change.ts";
import { type PartnerState, readPartner } from "./partner-reads.ts";

export interface OpenPartner {
  readonly state: PartnerState;
  readonly shown: Readonly<Record<string, any>>;
}

/**
 * The partner; no other change of it until the commit. Throws RefusalError: missing, or
 * `partner_left` when it works for none of the caller's clients any more.
 */
export const openPartner = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  partnerId: number,
  names: readonly string[],
): Promise<OpenPartner> => {
  await lockReference(tx);
  const found = await readPartner(tx, partnerId, scope.clients, names);
  if (found === undefined) throw missing();
  if (found.state.client_ids.some((id) => scope.clients.includes(id))) return found;
  throw conflict("partner_left", "this partner works for none of your clients now: an admin adds one");
};

/** How the audit names it. */
export const entityOf = (partnerId: number): string => `partner:${partnerId}`;

/** Audit rows are those of one client, or of none in particular. */
export const onlyOf = (clients: readonly number[]): number | null => (clients.length === 1 ? clients[0]! : null);
