// Changes the given settings of a client's pixel.
import { NOT_OF_PAGES } from "../../../processors/admit/event.ts";
import { checkVersion, invalid } from "../../base/refusal.ts";
import type { Work } from "../../base/work.ts";
import { entityOf, openClient } from "../clients/open-client.ts";
import { changeReference } from "../reference/change.ts";
import { hostsIn } from "./hosts.ts";
import { type PixelConfig, readPixelConfig, type SavedPixelConfig, savePixelConfig } from "./pixel-config.ts";

export interface PixelPatch extends Partial<Omit<PixelConfig, "allowed_domains">> {
  /** A list, or a text with one host a line. */
  readonly allowed_domains?: string | readonly string[];
}
export interface PixelChange {
  readonly client_id: number;
  readonly patch: PixelPatch;
  /** The version that the caller has seen; undefined: any. */
  readonly version: number | undefined;
}

/**
 * Returns the new configuration. Throws RefusalError: missing, `client_archived`,
 * `version_conflict`, and refusals of a wrong patch.
 */
export const changePixel = async (
  work: Work,
  { client_id, patch, version }: PixelChange,
): Promise<SavedPixelConfig> => {
  const { tx, scope } = work;
  await openClient(work, client_id);
  const before = (await readPixelConfig(tx, client_id, scope.clients))!;
  checkVersion(version, before.version);
  if (Object.keys(patch).length === 0) return before;
  const config = patched(before, patch);
  const { jurisdiction, consent_default } = config;
  await savePixelConfig(tx, client_id, config);
  if (jurisdiction !== before.jurisdiction || consent_default !== before.consent_default)
    await changeReference(work, { clients: [{ client_id, jurisdiction, consent_default }] });
  const after = (await readPixelConfig(tx, client_id, scope.clients))!;
  await work.audit({ action: "pixel_config.updated", client_id, entity: entityOf(client_id), before, after });
  return after;
};

const MOST_EVENTS = 100;

/**
 * Returns the patched configuration, without duplicate hosts and events. `place` is the place of
 * the patch in the input. Throws RefusalError: invalid `invalid_value` and `too_big`.
 */
export const patched = (config: PixelConfig, { allowed_domains, ...patch }: PixelPatch, place = ""): PixelConfig => {
  const tracked_events = [...new Set(patch.tracked_events ?? config.tracked_events)];
  // Only new names are checked, because older releases took every name.
  for (const [n, name] of (patch.tracked_events ?? []).entries())
    if (NOT_OF_PAGES.has(name))
      throw invalid(`${place}/tracked_events/${n}`, "invalid_value", `pages do not send ${name}: leave it out`);
  if (tracked_events.length > MOST_EVENTS)
    throw invalid(`${place}/tracked_events`, "too_big", `at most ${MOST_EVENTS} events`);
  const hosts =
    allowed_domains === undefined ? config.allowed_domains : hostsIn(allowed_domains, `${place}/allowed_domains`);
  return { ...config, ...patch, tracked_events, allowed_domains: hosts };
};
