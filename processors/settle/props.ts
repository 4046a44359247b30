// What settle reads of an event's props: only of copies, refunds and leads, for most events say
// nothing new there.
import type { EventReceived } from "../../schemas/generated.ts";
import { DEFAULT_CURRENCY } from "./order.ts";

export const propsIn = ({ props }: Pick<EventReceived, "props">): Readonly<Record<string, unknown>> => {
  try {
    return Object(JSON.parse(props));
  } catch {
    return {};
  }
};

/**
 * An edge gives an amount without a currency the default one; only the props say that none was
 * named.
 */
export const namesCurrency = (event: EventReceived): boolean =>
  event.currency !== null && (event.currency !== DEFAULT_CURRENCY || (propsIn(event).currency ?? "") !== "");

/** An id as senders write it: a text or a number. */
export const idIn = (value: unknown): string | null =>
  typeof value === "string" && value !== "" ? value : Number.isSafeInteger(value) ? String(value) : null;
