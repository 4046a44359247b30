// What a sender wrote as the id of an order: one spelling of each, and the words that name no
// order.

/** The same order whatever its sender's spaces and way of writing accents. */
export const orderIdOf = (text: string): string => text.trim().normalize("NFC");

/** In lower case, as they are compared. */
export const weakOrderIds: readonly string[] = ["null", "undefined", "none", "0", "n/a", "test"];
const PLACEHOLDERS: ReadonlySet<string> = new Set(weakOrderIds);

/** Every sale whose order a sender could not name would become one order. */
export const isWeakOrderId = (orderId: string): boolean =>
  orderId.length <= 9 && PLACEHOLDERS.has(orderId.toLowerCase());
