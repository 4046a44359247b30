// The source that a use case changes.
import { missing } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../../catalog/clients/open-client.ts";
import { type SavedSource, sourceToChange } from "./save-source.ts";

/** No other change of it until the commit. Throws RefusalError: missing, `client_archived`. */
export const openSource = async (work: Work, sourceId: number): Promise<SavedSource> => {
  const source = await readSource(work, sourceId);
  await openClient(work, source.client_id);
  return source;
};

/** The same, also of an archived client. Throws RefusalError: missing. */
export const readSource = async ({ tx, scope }: Pick<Work, "tx" | "scope">, sourceId: number): Promise<SavedSource> => {
  const source = await sourceToChange(tx, sourceId, scope.clients);
  if (source === undefined) throw missing();
  return source;
};
