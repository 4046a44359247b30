// Makes a client; without segments of its own it gets the six standard ones.
import { invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { changeReference } from "../reference/change.ts";
import type { ReferenceChanges } from "../reference/entities.ts";
import { entityOf } from "./open-client.ts";

type ClientRecord = Omit<NonNullable<ReferenceChanges["clients"]>[number], "client_id" | "valid_from">;
export type ClientInput = ClientRecord & { readonly name: string; readonly slug: string };

/** Codes of the domain for names that another client has. */
export const CLIENT_CONFLICTS = { slug: "slug_taken" };

/**
 * Answers its id. Throws RefusalError: `slug_taken`, and what is wrong with its fields.
 */
export const createClient = async (work: Work, input: ClientInput): Promise<number> => {
  // The contract of the platform API has no such status, so the command line alone meets this.
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
