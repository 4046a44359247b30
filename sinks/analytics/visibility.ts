// Whether an event may show its visitor.
import type { EventAttributed } from "../../schemas/generated.ts";
import type { Recorded } from "../../stream/flow.ts";

/** Consent to analytics, the lowest bit of the mask. */
const ANALYTICS = 0x01;
/** Without it an event shows nothing of its visitor's way and device. */
export const isSeen = ({ data }: Recorded<EventAttributed>): boolean => (data.enrichment.consent & ANALYTICS) !== 0;
