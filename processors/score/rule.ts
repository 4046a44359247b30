// processors/score/rule.ts - what a fraud rule is: a pure look at one event that finds a reason to distrust it, or none.
import type { EventEnriched, FraudReason } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";
import type { Click } from "../click-id.ts";

/** `click` is what the event's click id proves; null without one, and for one that is not ours. Weights add up; 100 is a reject by itself. */
export type FraudRule = (event: Recorded<EventEnriched>, click: Click | null) => FraudReason | null;

/** The time from click to event in words for people: "1.2 s after the click". */
export const afterClick = (elapsedMs: number): string => `${(elapsedMs / 1_000).toFixed(1)} s after the click`;
