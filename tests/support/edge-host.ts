// The edge of batches over HTTP in this process, without servers: what it stores is kept in a list.
import { openEdges } from "../../apps/ingest/edges.ts";
import { ingestHost } from "../../apps/ingest/server.ts";
import { inMemoryWire } from "../../infra/avro/wire.ts";
import { type Listening, listen } from "../../infra/http/listen.ts";
import { Problem } from "../../infra/http/problem.ts";
import { bearerOf } from "../../infra/http/tokens.ts";
import { openLog } from "../../infra/runtime/log.ts";
import type { Token } from "../../modules/access/tokens.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { topics } from "../../topics.ts";
import { clientId } from "./builders.ts";
import { token as facts } from "./shop.ts";

export interface EdgeHost extends Listening {
  /** Ids of the events that were stored, in the order of storing. */
  readonly stored: readonly string[];
}

/** Any bearer token is one of the shop's; each is limited as a token of its own. */
export const openEdgeHost = async (
  store: (messages: readonly OutputMessage[]) => Promise<void> = async () => undefined,
): Promise<EdgeHost> => {
  const wire = inMemoryWire([topics.eventsRaw]);
  const stored: string[] = [];
  const nowhere = { topic: "events.raw", partition: 0, offset: 0 };
  const edges = await openEdges({
    authenticate: (request): Token => {
      const name = bearerOf(request);
      if (name === undefined) throw new Problem("unauthorized", "send a token");
      const id = Number(name) || 1;
      const token = { token_id: id, kind: "ingest" as const, client_id: clientId, partner_id: null };
      return { ...token, client_side: false, requests_a_minute: 100 };
    },
    uploads: {} as never,
    limit: async () => ({ isAllowed: true, remaining: 1, resetMs: 0 }),
    facts: () => facts(),
    wire: () => wire,
    batchIdKey: Buffer.alloc(32),
    path: {
      expectRoom: () => undefined,
      store: async (messages) => {
        await store(messages);
        for (const { value } of messages)
          stored.push(wire.decode(topics.eventsRaw, value, nowhere).data.sender_event_id ?? "");
      },
    },
    count: () => undefined,
  });
  const none = (() => undefined) as never;
  const walReplay = { start: none, show: none };
  const routes = { edges, receipts: none, health: none, walReplay, backfill: none, pullTrigger: none };
  const host = ingestHost(routes, [], openLog({ app: "ingest", level: "silent" }));
  return { ...(await listen(host, { host: "127.0.0.1", port: 0 })), stored };
};
