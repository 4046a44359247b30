// What of an event tells about its visitor: an address or a user agent may be that of the server
// which sent it.
import type { EventReceived } from "../schemas/generated.ts";

/** Null when absent, or taken from a request which the visitor's device did not send. */
export const addressOfVisitor = ({ ip, ip_source, client_side }: EventReceived): string | null =>
  client_side || ip_source !== "request" ? ip : null;

export const userAgentOfVisitor = ({ ua, ua_source, client_side }: EventReceived): string | null =>
  client_side || ua_source !== "request" ? ua : null;
