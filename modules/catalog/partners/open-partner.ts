// Opens the partner that a use case changes.
import { conflict, missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { lockReference } from "../reference/open-change.ts";
import { type PartnerState, readPartner } from "./partner-reads.ts";

export interface OpenPartner {
  readonly state: PartnerState;
  readonly shown: Readonly<Record<string, any>>;
}

/**
 * Returns the partner and locks reference data until the commit. Throws RefusalError: missing, or
 * `partner_left` if it no longer works for any of the caller's clients.
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

/** The name of a partner in the audit. */
export const entityOf = (partnerId: number): string => `partner:${partnerId}`;

/** The client of an audit row: the only client, or null if there are several. */
export const onlyOf = (clients: readonly number[]): number | null => (clients.length === 1 ? clients[0]! : null);
