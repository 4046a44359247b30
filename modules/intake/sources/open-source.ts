// Opens the source that a use case changes.
import { missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../../catalog/clients/open-client.ts";
import { type SavedSource, sourceToChange } from "./save-source.ts";

/**
 * Returns the source and locks it until the commit. Throws RefusalError: missing,
 * `client_archived`.
 */
export const openSource = async (work: Work, sourceId: number): Promise<SavedSource> => {
  const source = await readSource(work, sourceId);
  await openClient(work, source.client_id);
  return source;
};

/** Does the same for a source of a client that may be archived. Throws RefusalError: missing. */
export const readSource = async ({ tx, scope }: Pick<Work, "tx" | "scope">, sourceId: number): Promise<SavedSource> => {
  const source = await sourceToChange(tx, sourceId, scope.clients);
  if (source === undefined) throw missing();
  return source;
};
