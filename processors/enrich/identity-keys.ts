// Keyed hashes of identifiers, by client: a view, so that no stage holds a secret.

import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import type { Identify } from "../../domain/personal/identify.ts";
import type { View } from "../../stream/flow.ts";

export interface IdentityKeys {
  /** The two hashes of one client (domain/device-id.ts). */
  readonly identifyOf: (clientId: number) => Identify;
}
export const identityKeys: View<IdentityKeys> = { view: "identity-keys" };

/** Who is logged in sends the same id with every event: 10,000 of a client at once, about 2 MB. */
const identifiersRemembered = 10_000;
/** Peppers are derived, so a client that is forgotten costs 20 us when it comes back. */
const clientsRemembered = 100;

/** What an app hands in as the view: made once, of the pepper of the installation. */
export const identityKeysOf = (secret: string): IdentityKeys => {
  const known = new Map<number, Identify>();
  return {
    identifyOf: (clientId) => {
      const found = known.get(clientId);
      if (found !== undefined) return found;
      if (known.size >= clientsRemembered) known.clear();
      const made = identifyFor(pepperOf(secret, clientId), identifiersRemembered);
      known.set(clientId, made);
      return made;
    },
  };
};
