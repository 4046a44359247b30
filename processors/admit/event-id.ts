// An event's id in the log: made of the sender's own id, or of what the event says.
import { uuidOf } from "../../domain/ids.ts";

/**
 * What makes an event without an id the same event when it is sent again. Its address, browser,
 * session and consent may have changed meanwhile.
 */
export const contentEventId = (event: {
  readonly client_id: number;
  readonly did: string;
  readonly t: string;
  readonly custom_name: string | null;
  readonly ts: number;
  readonly order_id: string | null;
  readonly url: string | null;
  readonly props: unknown;
}): string =>
  uuidOf(
    event.client_id,
    event.did,
    event.custom_name ?? event.t,
    event.ts,
    event.order_id === null ? `url:${event.url ?? ""}` : `order:${event.order_id}`,
    canonical(event.props),
  );

/** JSON with sorted keys: the order in which a sender's library writes them says nothing. */
const canonical = (value: unknown): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const held = value as Readonly<Record<string, unknown>>;
  return `{${Object.keys(held)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(held[key])}`)
    .join(",")}}`;
};
