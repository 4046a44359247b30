// The facts of enrich: where addresses are, and the keys under which account ids are hashed.
import type { EventReceived } from "../../schemas/generated.ts";
import type { FactsFor } from "../../stream/flow.ts";
import { type IdentityKeys, identityKeys } from "./identity-keys.ts";
import { type Places, places } from "./places.ts";

export type EnrichFacts = Places & IdentityKeys;

/** Every event of a batch meets the same data: which build it was stands on the event. */
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
