// The host of tracking links in this process, without servers: stored events are kept in a list.
import { type VisitParts, visitRoute } from "../../apps/links/visit-route.ts";
import { clickIdKey } from "../../domain/click-id.ts";
import { identifierHash, pepperOf } from "../../domain/device-id.ts";
import type { Reference } from "../../domain/reference/reference.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { directHost } from "../../infra/http/direct/direct-host.ts";
import { type ListeningServer, listen } from "../../infra/http/listen.ts";
import { openLog } from "../../infra/runtime/log.ts";
import type { RequestCounts } from "../../infra/runtime/metrics.ts";
import { clientFactsOf } from "../../modules/intake/path/facts.ts";
import type { Quotas } from "../../modules/intake/quotas/quotas.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";
import { clientId } from "./builders.ts";

export interface LinkHost extends ListeningServer {
  readonly url: string;
  /** Stored events, in the order of storing. */
  readonly stored: readonly EventReceived[];
  readonly counted: readonly RequestCounts[];
}
export interface LinkHostParts {
  readonly reference: () => Reference | undefined;
  readonly clock: () => number;
  readonly store?: (messages: readonly OutputMessage[]) => Promise<void>;
  readonly expectRoom?: () => void;
  readonly trustedProxies?: readonly string[];
  /** The clock of the limit; by default the clock of the process. */
  readonly now?: () => number;
  /** Quotas; without it nothing is ever spent. */
  readonly spend?: Quotas["spend"];
}

export const linkSecret = "pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA";
export const formerSecret = "zX8cV2bN5mA1sD4fG7hJ0kL3qW6eR9tY";
export const linkKeys: VisitParts["keys"] = [clickIdKey(linkSecret, 1), clickIdKey(formerSecret, 1)];
/** The user agent of a browser. */
export const browser = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36";
/** The form in which events hold this device id. */
export const deviceOf = (did: string): string => identifierHash(pepperOf(linkSecret, clientId), did);

export const openLinkHost = async (parts: LinkHostParts): Promise<LinkHost> => {
  const wire = inMemoryWire([topics.eventsRaw]);
  const stored: EventReceived[] = [];
  const counted: RequestCounts[] = [];
  const nowhere = { topic: "events.raw", partition: 0, offset: 0 };
  const { reference, clock, store, spend, expectRoom = () => undefined, trustedProxies = [], now } = parts;
  const route = visitRoute({
    reference,
    facts: clientFactsOf(() => linkSecret, reference),
    keys: linkKeys,
    wire: () => wire,
    path: {
      expectRoom,
      store: async (messages) => {
        await store?.(messages);
        for (const { value } of messages) stored.push(wire.decode(topics.eventsRaw, value, nowhere).data);
      },
    },
    quotas: { spend: (spending) => spend?.(spending) ?? true },
    count: (counts) => void counted.push(counts),
    clock,
    ...(now === undefined ? {} : { now }),
  });
  const log = openLog({ app: "links", level: "silent" });
  const host = await listen(directHost([route], { trustedProxies, log }), { host: "127.0.0.1", port: 0 });
  return { ...host, url: `http://127.0.0.1:${host.port}`, stored, counted };
};
