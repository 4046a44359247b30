// The edges of the ingest host over HTTP in this process, without servers: stored events are kept
// in lists.
import { type EdgeParts, openEdges } from "../../apps/ingest/edges.ts";
import { ingestHost } from "../../apps/ingest/server.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { type ListeningServer, listen } from "../../infra/http/listen.ts";
import { Problem } from "../../infra/http/problem.ts";
import { bearerOf } from "../../infra/http/tokens.ts";
import { keyringOf } from "../../infra/runtime/keyring.ts";
import { openLog } from "../../infra/runtime/log.ts";
import type { Token } from "../../modules/access/tokens/tokens.ts";
import type { Marks } from "../../modules/intake/payment-notices/marks.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";
import { clientId } from "./builders.ts";
import { knownSources } from "./known-sources.ts";
import { token as facts } from "./shop.ts";

export interface EdgeHost extends ListeningServer {
  /** Ids of the events that were stored, in the order of storing. */
  readonly stored: readonly string[];
  readonly events: readonly EventReceived[];
  readonly letters: readonly OutputMessage[];
}

/**
 * Every bearer token belongs to the shop and has its own limit. By default no client's postbacks
 * are signed; `parts` can change that.
 */
export const openEdgeHost = async (
  store: (messages: readonly OutputMessage[]) => Promise<void> = async () => undefined,
  parts: Partial<EdgeParts> = {},
): Promise<EdgeHost> => {
  const wire = inMemoryWire([topics.eventsRaw]);
  const stored: string[] = [];
  const events: EventReceived[] = [];
  const letters: OutputMessage[] = [];
  const nowhere = { topic: "events.raw", partition: 0, offset: 0 };
  const edges = await openEdges({
    authenticate: async (request): Promise<Token> => {
      const name = bearerOf(request);
      if (name === undefined) throw new Problem("unauthorized", "send a token");
      const id = Number(name) || 1;
      const token = { token_id: id, kind: "ingest" as const, client_id: clientId, partner_id: null };
      return { ...token, client_ids: null, client_side: false, requests_a_minute: 100 };
    },
    uploads: {} as never,
    limit: async () => ({ isAllowed: true, remaining: 1, resetMs: 0 }),
    facts: () => facts(),
    inForce: async () => undefined,
    clientFacts: (id) => (id === clientId ? facts() : undefined),
    processors: { settingsOf: async () => undefined, renew: async () => undefined, dummy: "0" },
    lookUp: async () => {
      throw new Error("no processor is asked");
    },
    sources: knownSources([]),
    keepPayload: async () => undefined,
    quotas: { spend: () => true },
    marks: marksInMemory(),
    keyring: edgeKeyring,
    wire: () => wire,
    batchIdKey: Buffer.alloc(32),
    path: {
      expectRoom: () => undefined,
      store: async (messages) => {
        await store(messages);
        for (const message of messages) {
          if (message.topic !== topics.eventsRaw.name) {
            letters.push(message);
            continue;
          }
          const { data } = wire.decode(topics.eventsRaw, message.value, nowhere);
          events.push(data);
          stored.push(data.sender_event_id ?? "");
        }
      },
    },
    count: () => undefined,
    ...parts,
  });
  const none = (() => undefined) as never;
  const walReplay = { start: none, show: none };
  const routes = { edges, receipts: none, health: none, walReplay, backfill: none, pullTrigger: none };
  const host = ingestHost(routes, [], openLog({ app: "ingest", level: "silent" }));
  return { ...(await listen(host, { host: "127.0.0.1", port: 0 })), stored, events, letters };
};

export const edgeKeyring = keyringOf("pL3vQ9xT7mK1wZ8rN4sB6yD2hJ5cF0gA");

const marksInMemory = (): Marks => {
  const known = new Set<string>();
  return {
    isMarked: async (notice) => known.has(JSON.stringify(notice)),
    mark: async (notice) => {
      const before = known.size;
      return known.add(JSON.stringify(notice)).size > before ? "new" : "repeated";
    },
  };
};
