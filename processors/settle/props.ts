// Reads the props that settle needs. Only copies, refunds and leads are parsed, because the props
// of other events add nothing.
import { meetingId } from "../../domain/ids.ts";
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
 * True if the sender named a currency. Edges fill in a default currency, so only the props show
 * this.
 */
export const namesCurrency = (event: EventReceived): boolean =>
  event.currency !== null && (event.currency !== DEFAULT_CURRENCY || (propsIn(event).currency ?? "") !== "");

/** An id that senders write as text or as a number. Null for a placeholder, which meets nothing. */
export const idIn = (value: unknown): string | null =>
  meetingId(typeof value === "string" ? value : Number.isSafeInteger(value) ? String(value) : null);
