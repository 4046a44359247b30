// The event types that can earn a commission, and the contract type that each uses.

/** In addition, custom events can earn, each under a contract for its own name. */
export const EARNING_TYPES: readonly string[] = ["purchase", "lead_submit", "install"];

/**
 * An order line has one contract, whichever copy of it arrived first. So a sale reported by an app
 * uses the contracts, caps, tiers and holds of `purchase`.
 */
export const contractTypeOf = (eventType: string): string => (eventType === "ext_purchase" ? "purchase" : eventType);
