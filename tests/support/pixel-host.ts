// The host of pixels in this process, without servers: stored events are kept in a list.

import { openTaking } from "../../apps/pixel/intake.ts";
import type { RecordingPorts } from "../../apps/pixel/recording.ts";
import { routesOf } from "../../apps/pixel/routes.ts";
import { readScript, type Script } from "../../apps/pixel/script.ts";
import { identifyFor, pepperOf } from "../../domain/device-id.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { directHost } from "../../infra/http/direct/direct-host.ts";
import { type ListeningServer, listen } from "../../infra/http/listen.ts";
import { type Keyring, keyringOf } from "../../infra/runtime/keyring.ts";
import { openLog } from "../../infra/runtime/log.ts";
import type { RequestCounts } from "../../infra/runtime/metrics.ts";
import { defaultPixel } from "../../modules/catalog/pixel/pixel-config.ts";
import type { PixelSettings } from "../../modules/catalog/pixel/pixel-picture.ts";
import type { Sightings } from "../../modules/catalog/pixel/sightings.ts";
import type { AskClientFacts } from "../../modules/intake/path/facts.ts";
import { hostEdge } from "../../modules/intake/path/host-edge.ts";
import type { Quotas } from "../../modules/intake/quotas/quotas.ts";
import { openTickets } from "../../modules/intake/recordings/gates.ts";
import type { TakenChunk } from "../../modules/intake/recordings/recording-store.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";
import { pipeline } from "../../topology.ts";

export const keyring = keyringOf("pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA");
const wire = inMemoryWire([topics.eventsRaw]);

/** Client 7 is the usual one, client 8 is another one, and no further client exists. */
export const factsOfTwo: AskClientFacts = (clientId) =>
  clientId === 7 || clientId === 8
    ? { clientId, segments: [], consentDefault: 0xff, identify: identifyFor(pepperOf("a secret", clientId), 100) }
    : undefined;

export interface PixelHost extends ListeningServer {
  readonly url: string;
  /** Events in the order of storing; `letters` are the dead letters. */
  readonly events: readonly EventReceived[];
  readonly letters: readonly OutputMessage[];
  readonly seen: readonly Parameters<Sightings["note"]>[0][];
  readonly counted: readonly RequestCounts[];
  /** Chunks of recordings that passed every check. */
  readonly recorded: readonly TakenChunk[];
  /** Empties the lists, and begins another minute of the samples. */
  readonly clear: () => void;
}
export interface PixelWorld {
  settings?: Partial<PixelSettings>;
  facts?: AskClientFacts;
  script?: Script;
  /** Serves all files that `npm run build` makes for pages, instead of `script`. */
  isBuilt?: boolean;
  /** Stores the chunks of recordings that passed the checks. */
  record?: RecordingPorts["store"];
  /** Quotas; without it nothing is ever spent. */
  spend?: Quotas["spend"];
  /** The clock of tickets and recordings. */
  now?: () => number;
  /** The secrets of the installation. */
  keyring?: Keyring;
  /** Runs before an event is stored; it may fail. */
  store?: () => Promise<void>;
}

/** `world` is read with each request, so a test may change it. */
export const openPixelHost = async (world: PixelWorld = {}): Promise<PixelHost> => {
  const events: EventReceived[] = [];
  const letters: OutputMessage[] = [];
  const seen: Parameters<Sightings["note"]>[0][] = [];
  const counted: RequestCounts[] = [];
  const recorded: TakenChunk[] = [];
  const store = async (messages: readonly OutputMessage[]): Promise<void> => {
    await world.store?.();
    for (const message of messages)
      if (message.topic === topics.eventsRaw.name)
        events.push(
          wire.decode(topics.eventsRaw, message.value, { topic: "events.raw", partition: 0, offset: 0 }).data,
        );
      else letters.push(message);
  };
  const facts: AskClientFacts = (clientId, now) => (world.facts ?? factsOfTwo)(clientId, now);
  let spans = 0;
  const settingsOf = () => ({ ...defaultPixel, ...world.settings });
  const quotas: Pick<Quotas, "spend"> = { spend: (spending) => world.spend?.(spending) ?? true };
  const take = openTaking({
    edge: hostEdge(pipeline, "pixel", { wire: () => wire, path: { store } }),
    path: { store },
    facts,
    settingsOf,
    quotas,
    sightings: { note: (one) => void seen.push(one) },
    keyring,
    now: () => performance.now() + spans * 60_000,
  });
  const now = () => (world.now ?? Date.now)();
  const ticketsNow = () => openTickets(world.keyring ?? keyring);
  const routes = routesOf({
    take,
    configOf: (clientId) =>
      clientId === 7
        ? { client_id: 7, consent_default: facts(7, Date.now())!.consentDefault, ...world.settings }
        : undefined,
    scripts: world.isBuilt
      ? { "/r.js": readScript("r.js"), "/vitals.js": readScript("vitals.js"), "/replay.js": readScript("replay.js") }
      : { "/r.js": world.script },
    replay: {
      facts,
      settingsOf,
      quotas,
      tickets: { ticketOf: (asked) => ticketsNow().ticketOf(asked), isGood: (...of) => ticketsNow().isGood(...of) },
      store: async (taken) => {
        const notTaken = await world.record?.(taken);
        if (notTaken === undefined) recorded.push(taken);
        return notTaken;
      },
      now,
    },
    count: (one) => void counted.push(one),
    now,
  });
  const log = openLog({ app: "pixel", level: "silent" });
  const host = await listen(directHost(routes, { trustedProxies: ["loopback"], log }), { host: "127.0.0.1", port: 0 });
  return {
    ...host,
    url: `http://127.0.0.1:${host.port}`,
    ...{ events, letters, seen, counted, recorded },
    clear: () => {
      spans += 1;
      for (const list of [events, letters, seen, counted, recorded]) list.length = 0;
    },
  };
};
