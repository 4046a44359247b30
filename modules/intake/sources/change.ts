// Changes a source; edges use the change within a second.
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { checkVersion } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { openSource } from "./open-source.ts";
import {
  entityOfSource,
  type SavedSource,
  type SourceSecrets,
  type SourceSettings,
  updateSource,
} from "./save-source.ts";

export interface SourceChange {
  readonly source_id: number;
  /** The slug cannot change, because events of the source carry it. */
  readonly patch: Partial<Omit<SourceSettings, "slug">>;
  readonly secrets: SourceSecrets;
  /** The version that the caller has seen; undefined: any. */
  readonly version?: number | undefined;
}

/**
 * Throws RefusalError: missing, conflict `client_archived`, `version_conflict`, invalid `bad_mode`,
 * `bad_state`, `bad_unsigned`, `incomplete`, `credential_needed`.
 */
export const changeSource = async (
  work: Work,
  keyring: Keyring,
  { source_id, patch, secrets, version }: SourceChange,
): Promise<SavedSource> => {
  const before = await openSource(work, source_id);
  checkVersion(version, before.version);
  const after = await updateSource(work.tx, before, patch, secrets, keyring);
  const replaced = Object.entries(secrets).flatMap(([name, text]) => (text === undefined ? [] : [name]));
  const { client_id } = before;
  const entity = entityOfSource(before);
  await work.audit({ action: "source.updated", client_id, entity, before, after: { ...after, replaced } });
  return after;
};
