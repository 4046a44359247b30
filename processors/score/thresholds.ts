// processors/score/thresholds.ts - the facts of score: where the client draws its lines, and the keys that prove a click.
import type { EventEnriched } from "../../schemas/generated.ts";
import type { FactsFor } from "../../stream/flow.ts";
import { type ClickKeys, clickKeys } from "../attribute/click-keys.ts";
import { type Reference, reference } from "../reference.ts";

export interface Thresholds {
  /** From this score on the commission is held for review. */
  readonly review: number;
  /** From this score on nobody is credited. */
  readonly reject: number;
  readonly clickOf: ClickKeys["clickOf"];
}

/** Of a client that is not known: what a new client starts with (contracts.md 5). */
const defaultReview = 40;
const defaultReject = 70;

export const thresholdsFacts: FactsFor<EventEnriched, Thresholds> = {
  name: "thresholds",
  load: async (batch, read) => {
    const newest = batch.reduce((latest, event) => Math.max(latest, event.receivedAt), 0);
    const [known, { clickOf }]: [Reference, ClickKeys] = await Promise.all([read(reference, newest), read(clickKeys, newest)]);
    return (event) => {
      const client = known.at(event.at, event.receivedAt).client(event.data.event.client_id);
      return { review: client?.fraud_review ?? defaultReview, reject: client?.fraud_reject ?? defaultReject, clickOf };
    };
  },
};
