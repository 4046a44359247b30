// What an event shows about its visitor. Its address and user agent may be those of a server that
// sent it.
import type { EventReceived } from "../schemas/generated.ts";

/**
 * Null if absent, or if the address comes from a request that the visitor's device did not send.
 */
export const addressOfVisitor = ({ ip, ip_source, client_side }: EventReceived): string | null =>
  client_side || ip_source !== "request" ? ip : null;

export const userAgentOfVisitor = ({ ua, ua_source, client_side }: EventReceived): string | null =>
  client_side || ua_source !== "request" ? ua : null;
