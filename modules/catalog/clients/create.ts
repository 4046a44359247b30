// Makes a client. It gets the six standard segments unless its own are given.
import { invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { changeReference } from "../reference/change.ts";
import type { ReferenceChanges } from "../reference/entities.ts";
import { entityOf } from "./open-client.ts";

type ClientRecord = Omit<NonNullable<ReferenceChanges["clients"]>[number], "client_id" | "valid_from">;
export type ClientInput = ClientRecord & { readonly name: string; readonly slug: string };

/** Refusal codes for values that another client uses already. */
export const CLIENT_CONFLICTS = { slug: "slug_taken" };

/** Returns the id. Throws RefusalError: `slug_taken`, and refusals of wrong fields. */
export const createClient = async (work: Work, input: ClientInput): Promise<number> => {
  // Only the command line can send this status; the contract of the platform API excludes it.
  if (input.status === "archived") throw invalid("/status", "invalid_value", "a new client is active or paused");
  const saved = await changeReference(
    work,
    { clients: [{ client_id: -1, ...input }] },
    { conflicts: CLIENT_CONFLICTS },
  );
  const id = saved.idOf("clients", -1);
  await work.audit({ action: "client.created", client_id: id, entity: entityOf(id), after: input });
  return id;
};
