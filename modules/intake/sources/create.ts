// Makes a source.
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { Work } from "../../base/work.ts";
import { openClient } from "../../catalog/clients/open-client.ts";
import {
  entityOfSource,
  insertSource,
  type SavedSource,
  type SourceSecrets,
  type SourceSettings,
} from "./save-source.ts";

export interface NewSource extends SourceSettings, SourceSecrets {
  readonly client_id: number;
}

/**
 * Throws RefusalError: missing, conflict `client_archived`, `slug_taken`, invalid `bad_mode`,
 * `incomplete`.
 */
export const createSource = async (work: Work, keyring: Keyring, input: NewSource): Promise<SavedSource> => {
  const { client_id, secret, pull_secret, ...settings } = input;
  await openClient(work, client_id);
  const made = await insertSource(work.tx, client_id, settings, { secret, pull_secret }, keyring);
  await work.audit({ action: "source.created", client_id, entity: entityOfSource(made), after: settings });
  return made;
};
