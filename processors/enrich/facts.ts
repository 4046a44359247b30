// The facts of enrich: the location of addresses, and the keys that hash account ids.
import type { EventReceived } from "../../schemas/generated.ts";
import type { FactsFor } from "../../stream/flow.ts";
import { type IdentityKeys, identityKeys } from "./identity-keys.ts";
import { type Places, places } from "./places.ts";

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
