// The facts of attribute: reference data as of the event, the keys that verify click ids, so that
// no stage holds a secret, and clicks of the same person on another device.
import { type Click, type ClickIdKey, verify } from "../../domain/click-id.ts";
import { memo } from "../../domain/memo.ts";
import { type Reference, type ReferenceAt, reference } from "../../domain/reference/reference.ts";
import type { EventScored } from "../../schemas/generated.ts";
import type { FactsFor, Recorded, UnixMs, View } from "../../stream/flow.ts";
import { claimKindOf } from "./claims.ts";

export interface ClickKeys {
  /**
   * Decodes a click id. Null if the id is not ours: wrong format, unknown key, or a changed bit.
   */
  readonly clickOf: (clickId: string) => Click | null;
}
export const clickKeys: View<ClickKeys> = { view: "click-keys" };

/**
 * Every event of a visit repeats its click id, so results are cached: 20,000 visits take about 4
 * MB. A MAC costs 5 us, a cached result 0.1 us.
 */
const clicksRemembered = 20_000;

/** Builds the view. The app calls this once, after reading its secrets. */
export const clickKeysOf = (keys: readonly ClickIdKey[]): ClickKeys => ({
  clickOf: memo(clicksRemembered, (clickId) => verify(clickId, keys) ?? null),
});

export interface IdentityClickAsked {
  readonly client_id: number;
  readonly event_id: string;
  readonly at: UnixMs;
  readonly did: string;
  readonly person: string;
}

export interface IdentityClicks {
  /**
   * One bulk look-up for a batch. Returns, by event id, the newest earlier click id on another
   * device of the same person. The first answer is kept for 8 days (law R14).
   */
  readonly lookUp: (asked: readonly IdentityClickAsked[]) => Promise<ReadonlyMap<string, string>>;
}
export const identityClicks: View<IdentityClicks> = { view: "identity-clicks" };

/**
 * Returns the look-up for an event. Null unless the event is a claim of a known person and the
 * client has enabled the feature (docs/design/contracts.md, "Credit").
 */
const identityClickAskedBy = (input: Recorded<EventScored>, known: ReferenceAt): IdentityClickAsked | null => {
  const { event, enrichment } = input.data;
  if (enrichment.person === null || known.client(event.client_id)?.identity_link !== true) return null;
  if (claimKindOf(event, known) !== "conversion") return null;
  return {
    client_id: event.client_id,
    event_id: event.event_id,
    at: input.at,
    did: event.did,
    person: enrichment.person,
  };
};

export interface AttributeFacts {
  /**
   * Valid at event time, as known when the event was received. So a rewind decides like the first
   * run.
   */
  readonly reference: ReferenceAt;
  /** The same, but valid at receipt: how old the time of a server may be. */
  readonly referenceAtReceipt: ReferenceAt;
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
      referenceAtReceipt: known.at(event.receivedAt, event.receivedAt),
      clickOf,
      identityClick: linked.size === 0 ? null : (linked.get(event.id) ?? null),
      referenceAsOf: known.asOf < event.receivedAt - freshEnoughMs ? known.asOf : null,
    });
  },
};
