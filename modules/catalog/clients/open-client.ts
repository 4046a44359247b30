// Opens clients that a use case names: the caller must see them, and they must not be archived.
import { archived } from "../../access/standing.ts";
import { invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { type ClientOf, clientsAmong } from "../partners/partner-reads.ts";
import { lockReference } from "../reference/open-change.ts";
import { type ClientSnapshot, clientOf, type ShownRow } from "./client-reads.ts";

/**
 * Returns these fields of the client and locks reference data until the commit. Throws
 * RefusalError: missing, or `client_archived`.
 */
export const openClient = async (work: Work, clientId: number, names: readonly string[] = []): Promise<ShownRow> => {
  const { state, shown } = await lockClient(work, clientId, names);
  if (state.status === "archived") throw archived("client");
  return shown;
};

/** Does the same for a client that may be archived. Throws RefusalError: missing. */
export const lockClient = async (
  { tx, scope }: Work,
  clientId: number,
  names: readonly string[] = [],
): Promise<ClientSnapshot> => {
  await lockReference(tx);
  return clientOf(tx, clientId, scope.clients, names);
};

/** The name of a client in the audit. */
export const entityOf = (clientId: number): string => `client:${clientId}`;

/**
 * Checks the clients that an input names. A client that the caller may not see is refused like one
 * that does not exist. Throws RefusalError: invalid `unknown`, or `client_archived`.
 */
export const namedClients = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  named: readonly { readonly id: number; readonly path: string }[],
): Promise<readonly ClientOf[]> => {
  const ids = named.map(({ id }) => id);
  const known = await clientsAmong(tx, ids, scope.clients);
  for (const { id, path } of named) {
    const client = known.find((one) => one.id === id);
    if (client === undefined) throw invalid(path, "unknown", `no client has the id ${id}`);
    if (client.status === "archived") throw archived("client", { message: `client ${id} is archived` });
  }
  return known;
};
