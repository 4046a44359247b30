// Computes the id of an event in the log, from the sender's own id or from the event's content.
import { uuidOf } from "../../domain/ids.ts";

/**
 * An event without an id is recognised by these fields when it is sent again. Address, browser,
 * session and consent are left out because they may have changed meanwhile.
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

/** JSON with sorted keys, because the key order only depends on the sender's library. */
const canonical = (value: unknown): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const held = value as Readonly<Record<string, unknown>>;
  return `{${Object.keys(held)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${canonical(held[key])}`)
    .join(",")}}`;
};
