// Tries a draft mapping on payloads that a source has sent, and records in the audit that payloads
// were read.
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { Work } from "../../base/work.ts";
import { readSource } from "./open-source.ts";
import { entityOfSource } from "./save-source.ts";
import { type DraftMapping, type MappingTrial, tryMapping } from "./try-mapping.ts";

/** Throws RefusalError: missing. */
export const trySource = async (
  work: Work,
  keyring: Keyring,
  { source_id, draft }: { readonly source_id: number; readonly draft: DraftMapping },
): Promise<readonly MappingTrial[]> => {
  const source = await readSource(work, source_id);
  const results = await tryMapping(work.tx, source, draft, keyring);
  await work.audit({ action: "source.tried", client_id: source.client_id, entity: entityOfSource(source) });
  return results;
};
