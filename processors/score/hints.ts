// Hints: what other events have in common with a claim or a click. They are read once across keys
// and then stored with the event.

import { addressOfVisitor } from "../../domain/personal/visitor.ts";
import type { EventEnriched, FraudHints } from "../../schemas/generated.ts";
import type { Recorded, UnixMs, View } from "../../stream/flow.ts";
import type { ClickKeys } from "../attribute/click-keys.ts";
import { isConversion } from "./rule.ts";

/** The look-up for one event. A null field is not looked up. */
export interface HintAsked {
  readonly client_id: number;
  readonly event_id: string;
  readonly at: UnixMs;
  readonly did: string;
  readonly address: string | null;
  /** Only a click id with a valid MAC. */
  readonly click_id: string | null;
}

export interface Hints {
  /**
   * One bulk look-up for a batch. Returns hints by event id. The first answer for an event stays
   * its answer for 8 days, whatever has arrived since (law R14).
   */
  readonly lookUp: (asked: readonly HintAsked[]) => Promise<ReadonlyMap<string, FraudHints>>;
}
export const hints: View<Hints> = { view: "hints" };

/**
 * Only claims and clicks are looked up. Other events are far too frequent and earn nothing
 * (docs/design/money.md, "Facts").
 */
export const hintAskedBy = (input: Recorded<EventEnriched>, clickOf: ClickKeys["clickOf"]): HintAsked | null => {
  const { event } = input.data;
  const isSale = isConversion(input);
  if (!isSale && event.t !== "click") return null;
  const click_id = event.click_id !== null && clickOf(event.click_id) !== null ? event.click_id : null;
  const address = isSale ? addressOfVisitor(event) : null;
  if (click_id === null && address === null) return null;
  return { client_id: event.client_id, event_id: event.event_id, at: input.at, did: event.did, address, click_id };
};
