// Normalises the order ids of senders, and recognises words that are no order id.

/**
 * The same order id always has the same spelling, whatever spaces or accent encoding its sender
 * uses.
 */
export const orderIdOf = (text: string): string => text.trim().normalize("NFC");

/** In lower case, because they are compared in lower case. */
export const weakOrderIds: readonly string[] = ["null", "undefined", "none", "0", "n/a", "test"];
const PLACEHOLDERS: ReadonlySet<string> = new Set(weakOrderIds);

/**
 * True for placeholders. Without this check, all sales with the same placeholder would become one
 * order.
 */
export const isWeakOrderId = (orderId: string): boolean =>
  orderId.length <= 9 && PLACEHOLDERS.has(orderId.toLowerCase());
