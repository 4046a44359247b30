// The facts of enrich: the location of addresses, and the keys that hash account ids, so that no
// stage holds a secret.
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import type { Identify } from "../../domain/personal/identify.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { FactsFor, View } from "../../stream/flow.ts";
import { type Places, places } from "./places.ts";

export interface IdentityKeys {
  /** The two hash functions of one client (domain/device-id.ts). */
  readonly identifyOf: (clientId: number) => Identify;
}
export const identityKeys: View<IdentityKeys> = { view: "identity-keys" };

/**
 * A logged-in visitor sends the same id with every event, so hashes are cached: 10,000 for each
 * client, about 2 MB.
 */
const identifiersRemembered = 10_000;
/**
 * Peppers are derived from the secret, so a client that fell out of the cache costs 20 us to
 * restore.
 */
const clientsRemembered = 100;

/** Builds the view from the installation's pepper. The app calls this once. */
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

export type EnrichFacts = Places & IdentityKeys;

/** All events of a batch use the same data, and each event records the build of that data. */
export const enrichFacts: FactsFor<EventReceived, EnrichFacts> = {
  name: "places",
  load: async (batch, read) => {
    const newest = batch.reduce((latest, event) => Math.max(latest, event.receivedAt), 0);
    const [{ built, placeOf }, { identifyOf }]: [Places, IdentityKeys] = await Promise.all([
      read(places, newest),
      read(identityKeys, newest),
    ]);
    const facts: EnrichFacts = { built, placeOf, identifyOf };
    return () => facts;
  },
};
