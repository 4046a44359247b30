// Hints: what other events have in common with a claim or a click. Read once across keys, then kept
// with the event.

import { addressOfVisitor } from "../../domain/visitor.ts";
import type { EventEnriched, FraudHints } from "../../schemas/generated.ts";
import type { Recorded, UnixMs, View } from "../../stream/flow.ts";
import type { ClickKeys } from "../attribute/click-keys.ts";
import { isConversion } from "./rule.ts";

/** What is asked about one event; null: there is nothing to ask. */
export interface HintAsked {
  readonly client_id: number;
  readonly event_id: string;
  readonly at: UnixMs;
  readonly did: string;
  readonly address: string | null;
  /** One whose MAC is good. */
  readonly click_id: string | null;
}

export interface Hints {
  /**
   * One bulk read for a batch, by event id. The first answer that an event got is its answer for 8
   * days, whatever came since (law R14).
   */
  readonly lookUp: (asked: readonly HintAsked[]) => Promise<ReadonlyMap<string, FraudHints>>;
}
export const hints: View<Hints> = { view: "hints" };

/**
 * Claims and clicks alone may ask: everything else is far too frequent, and earns nothing
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
