// What a write needs of the client above its row: the caller sees it, and it is not archived.
import { Problem } from "../../../infra/http/problem.ts";
import { readClient, type ShownRow } from "../../../modules/catalog/clients/client-reads.ts";
import { lockReference } from "../../../modules/catalog/reference/writer.ts";
import type { Work } from "../route.ts";
import { notFound } from "./accept.ts";

/**
 * These fields of the client, and no other change of reference data until the commit. Throws
 * Problem 404, and 409 when it is archived.
 */
export const openClient = async (
  { tx, scope }: Work,
  clientId: number,
  names: readonly string[] = [],
): Promise<ShownRow> => {
  await lockReference(tx);
  const found = await readClient(tx, clientId, scope.clients, names);
  if (found === undefined) throw notFound();
  if (found.state.status === "archived")
    throw new Problem("conflict", "this client is archived", { code: "client_archived" });
  return found.shown;
};
