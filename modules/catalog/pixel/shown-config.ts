// The pixel settings that any browser may read. They contain neither the list of domains nor a
// secret.
import type { Reference } from "../../../domain/reference/reference.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import { consentDefaultOf } from "../../../processors/admit/request-terms.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { PixelSettings } from "./pixel-picture.ts";

export interface ShownConfig {
  readonly replay_enabled: boolean;
  readonly [setting: string]: unknown;
}

/**
 * Returns undefined if there is no such client. `consent_default` applies to visitors who have made
 * no choice; it is 0 where the law requires it. Throws Unavailable before the first load.
 */
export const shownConfig =
  (
    reference: () => Reference | undefined,
    settingsOf: (clientId: number) => PixelSettings | undefined,
    clock: () => UnixMs,
  ) =>
  (clientId: number): ShownConfig | undefined => {
    const now = clock();
    const picture = reference();
    const settings = settingsOf(clientId);
    if (picture === undefined || settings === undefined) throw new Unavailable("the clients are not known here yet", 1);
    const client = picture.at(now, now).client(clientId);
    if (client === undefined || client.status === "archived") return undefined;
    const { allowed_domains: _, ...shown } = settings;
    return {
      client_id: clientId,
      jurisdiction: client.jurisdiction,
      consent_default: consentDefaultOf(client),
      click_days: client.click_window_days,
      ...shown,
    };
  };
