// Which event types can earn a commission, and whose contract each of them reads.

/** Besides these only custom events earn, each by a contract of its own name. */
export const EARNING_TYPES: readonly string[] = ["purchase", "lead_submit", "install"];

/**
 * An order line has one contract whichever copy of it came first: a sale that an app reports reads
 * the contracts, caps, tiers and holds of `purchase`.
 */
export const contractTypeOf = (eventType: string): string => (eventType === "ext_purchase" ? "purchase" : eventType);
