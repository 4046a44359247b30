// The mark of a row whose person was taken out of it.

/**
 * Stands in the place of a device, followed by the id of the event. A stored device is a hash of 64
 * hex digits, so the two never meet. Each event has its own, so that no two rows look like one
 * visitor.
 */
export const SCRUBBED = "erased:";
