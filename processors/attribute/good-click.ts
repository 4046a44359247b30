// Tells whether the click id on an event could be credited, as far as this is known before the
// stages run.
import type { EventReceived } from "../../schemas/generated.ts";
import type { UnixMs } from "../../stream/flow.ts";
import { windowOf } from "./attribute.ts";
import { clickOnEvent } from "./contenders.ts";
import type { AttributeFacts } from "./facts.ts";

/**
 * `reference` holds the data as of the event. The fraud score and earlier claims may still change
 * the result.
 */
export const hasGoodClick = (
  event: Pick<EventReceived, "t" | "client_id" | "click_id">,
  times: { readonly at: UnixMs; readonly receivedAt: UnixMs },
  facts: Pick<AttributeFacts, "reference" | "clickOf">,
): boolean => {
  if (event.click_id === null) return false;
  const windowDays = windowOf(event.t, event.client_id, facts);
  return clickOnEvent(event.click_id, { input: { ...times, data: { event } }, facts, windowDays }).fault === null;
};
