// The facts of attribute: reference data as of the event, the keys that prove a click, and clicks
// linked through identity.

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
   * Valid at the event's time, as known when it was received: a rewind decides as the first run
   * did.
   */
  readonly reference: ReferenceAt;
  readonly clickOf: ClickKeys["clickOf"];
  /**
   * The click of the same person on another device, where the client switched identity_link on;
   * null: none, or not asked.
   */
  readonly identityClick: string | null;
  /**
   * Set when the picture is older than it should be, because it could not be refreshed: its time.
   */
  readonly referenceAsOf: UnixMs | null;
}

/**
 * A picture may be this much older than the receive time of an event: rows become known 2 s after
 * they are saved (docs/design/money.md, "Facts").
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
