// What the routes of partners and of their contracts ask alike before they change anything.
import { Problem } from "../../../infra/http/problem.ts";
import {
  type ClientOf,
  clientsAmong,
  type PartnerState,
  readPartner,
} from "../../../modules/catalog/partners/partner-reads.ts";
import { lockReference } from "../../../modules/catalog/reference/writer.ts";
import type { Ask, Work } from "../route.ts";
import { fault, notFound } from "./accept.ts";

type ShownRow = Readonly<Record<string, any>>;

/**
 * The partner and no other change of it until the commit. Throws Problem 404, and 409 when it works
 * for none of the caller's clients any more.
 */
export const partnerToChange = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  partnerId: number,
  names: readonly string[],
): Promise<{ readonly state: PartnerState; readonly shown: ShownRow }> => {
  await lockReference(tx);
  const found = await readPartner(tx, partnerId, scope.clients, names);
  if (found === undefined) throw notFound();
  if (found.state.client_ids.some((id) => scope.clients.includes(id))) return found;
  const detail = "this partner works for none of your clients now: an admin adds one";
  throw new Problem("conflict", detail, { code: "partner_left" });
};

/** Throws Problem 409. */
export const partnerArchived = (): Problem =>
  new Problem("conflict", "this partner is archived", { code: "partner_archived" });

/**
 * Clients that a body names. One that the caller may not see is as unknown as one that does not
 * exist. Throws Problem 400, and 409 for an archived one.
 */
export const namedClients = async (
  { tx, scope }: Pick<Work, "tx" | "scope">,
  named: readonly { readonly id: number; readonly pointer: string }[],
): Promise<readonly ClientOf[]> => {
  const ids = named.map(({ id }) => id);
  const known = await clientsAmong(tx, ids, scope.clients);
  for (const { id, pointer } of named) {
    const client = known.find((one) => one.id === id);
    if (client === undefined) throw fault(pointer, "unknown", `no client has the id ${id}`);
    if (client.status === "archived")
      throw new Problem("conflict", `client ${id} is archived`, { code: "client_archived" });
  }
  return known;
};

/** A filter by a client out of scope finds nothing: 404, as for an unknown one. */
export const checkFilter = async ({ read }: Pick<Ask, "read">, clientId: number | undefined): Promise<void> => {
  if (clientId === undefined) return;
  await read(async (_tx, { clients }) => {
    if (!clients.includes(clientId)) throw notFound();
  });
};
