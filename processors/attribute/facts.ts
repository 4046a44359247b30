// The facts of attribute: reference data as of the event, the keys that verify click ids, and
// clicks found through the person graph.

import { type Reference, type ReferenceAt, reference } from "../../domain/reference/reference.ts";
import type { EventScored } from "../../schemas/generated.ts";
import type { FactsFor, UnixMs } from "../../stream/flow.ts";
import { type ClickKeys, clickKeys } from "./click-keys.ts";
import {
  type IdentityClickAsked,
  type IdentityClicks,
  identityClickAskedBy,
  identityClicks,
} from "./identity-clicks.ts";

export interface AttributeFacts {
  /**
   * Valid at event time, as known when the event was received. So a rewind decides like the first
   * run.
   */
  readonly reference: ReferenceAt;
  readonly clickOf: ClickKeys["clickOf"];
  /**
   * The person's click on another device, if the client enabled identity_link. Null if there is
   * none or the look-up was not made.
   */
  readonly identityClick: string | null;
  /**
   * The time of the reference snapshot, if it is older than it should be because a refresh failed.
   * Otherwise null.
   */
  readonly referenceAsOf: UnixMs | null;
}

/**
 * How much older than the receipt of an event a snapshot may be. Rows become known 2 s after they
 * are saved (docs/design/money.md, "Facts").
 */
const freshEnoughMs = 1_000;
const nothingLinked: ReadonlyMap<string, string> = new Map();

export const attributeFacts: FactsFor<EventScored, AttributeFacts> = {
  name: "attribution",
  store: "redis",
  load: async (batch, read) => {
    const newest = batch.reduce((latest, event) => Math.max(latest, event.receivedAt), 0);
    const [known, { clickOf }]: [Reference, ClickKeys] = await Promise.all([
      read(reference, newest),
      read(clickKeys, newest),
    ]);
    const asked: IdentityClickAsked[] = [];
    for (const event of batch) {
      if (event.data.enrichment.person === null) continue;
      const one = identityClickAskedBy(event, known.at(event.at, event.receivedAt));
      if (one !== null) asked.push(one);
    }
    const linked =
      asked.length === 0 ? nothingLinked : await ((await read(identityClicks, newest)) as IdentityClicks).lookUp(asked);
    return (event) => ({
      reference: known.at(event.at, event.receivedAt),
      clickOf,
      identityClick: linked.size === 0 ? null : (linked.get(event.id) ?? null),
      referenceAsOf: known.asOf < event.receivedAt - freshEnoughMs ? known.asOf : null,
    });
  },
};
