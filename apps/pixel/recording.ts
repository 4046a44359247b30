// POST /replay: one chunk of a recorded visit. The host repeats all checks of the script, and
// answers once the chunk is stored.
import { spelling } from "../../domain/ids.ts";
import { maskInForce } from "../../domain/personal/consent.ts";
import { send, type Visit } from "../../infra/http/direct/direct-host.ts";
import { perSecond } from "../../infra/http/direct/per-second.ts";
import { Problem, unavailable } from "../../infra/http/problem.ts";
import { withBody } from "../../infra/http/read-body.ts";
import { networkOf, senderOf } from "../../infra/http/sender.ts";
import { orUnavailable } from "../../infra/runtime/errors.ts";
import type { PixelSettings } from "../../modules/catalog/pixel/pixel-picture.ts";
import type { AskClientFacts } from "../../modules/intake/path/facts.ts";
import { expectQuota, type Quotas } from "../../modules/intake/quotas/quotas.ts";
import { type Chunk, chunkIn } from "../../modules/intake/recordings/chunk.ts";
import { closedGate, type Tickets } from "../../modules/intake/recordings/gates.ts";
import type { NotTaken, TakenChunk } from "../../modules/intake/recordings/recording-store.ts";
import { corsOf, isPageAllowed, originOf } from "./pages.ts";

export interface RecordingPorts {
  readonly facts: AskClientFacts;
  /** Undefined while no configuration is known. */
  readonly settingsOf: (clientId: number) => PixelSettings | undefined;
  readonly quotas: Pick<Quotas, "spend">;
  readonly tickets: Tickets;
  /** Undefined: stored. */
  readonly store: (taken: TakenChunk) => Promise<NotTaken | undefined>;
  readonly now: () => number;
}

/** The first chunk of a page holds the whole page. */
const MAX_BYTES = 1024 * 1024;
/** The limit for one address. A page sends one chunk in five seconds. */
const CHUNKS_A_SECOND = 20;
/** Chunks that were read and wait for Postgres and object storage. */
const MOST_UNDER_WAY = 32;

const REFUSALS: Readonly<Record<NotTaken, string>> = {
  visit_too_long: "sid: nothing more is recorded of this visit",
  too_many_visits: "cid: this client records no further visits today",
  too_many_of_network: "this network begins no further visits of the client today",
  too_many_of_address: "this address begins no further visits of the client in this hour",
  ticket_needed: "ticket: send replay_ticket of /config; few visits of a client begin without a good one",
  other_device: "did: this visit is that of another device",
  erased: "sid: this visit was erased",
};
const refused = (code: string, message: string): Problem => new Problem("forbidden", message, { code });

/**
 * Throws Problem: 400 names the invalid field, 403 the check that failed; 429 and 503 are
 * temporary.
 */
export const takeRecording = (ports: RecordingPorts): ((visit: Visit) => Promise<void>) => {
  const chunks = perSecond(CHUNKS_A_SECOND);
  let underWay = 0;

  const admit = (visit: Visit, chunk: Chunk): TakenChunk => {
    const receivedAt = ports.now();
    const known = ports.facts(chunk.clientId, receivedAt);
    const settings = ports.settingsOf(chunk.clientId);
    if (settings === undefined) throw unavailable("the clients are not known here yet", 1);
    if (known === undefined || known === null) throw refused("unknown_client", "cid: names no client");
    if (!isPageAllowed(originOf(visit), settings.allowed_domains))
      throw refused("domain_not_allowed", "Origin: this page is not on the client's list of domains");
    const { headers } = visit.request;
    const signals = {
      hasGpc: chunk.hasGpc || headers["sec-gpc"]?.toString().trim() === "1",
      hasDnt: chunk.hasDnt || headers.dnt?.toString().trim() === "1",
    };
    const mask = maskInForce(chunk.consent ?? known.consentDefault, signals);
    const { sessionId } = chunk;
    const closed = closedGate(settings, { mask, isChosen: chunk.consent !== null, sessionId });
    if (closed !== undefined) throw refused(closed.code, closed.message);
    const { clientId, ticket } = chunk;
    const network = networkOf(visit.address);
    const hasTicket = ticket !== null && ports.tickets.isGood(ticket, { clientId, network, now: receivedAt });
    const sender = senderOf(visit.address);
    return { chunk, device: known.identify.plain(spelling(chunk.did)), mask, receivedAt, sender, network, hasTicket };
  };

  return async (visit) => {
    // The script sends with credentials within its site, and must be able to read why it should
    // stop.
    for (const [name, value] of Object.entries(corsOf(visit, []))) visit.response.setHeader(name, value);
    if (!chunks.take(senderOf(visit.address)))
      throw new Problem("rate_limited", `an address sends ${CHUNKS_A_SECOND} chunks in a second`, {
        headers: { "Retry-After": "1" },
      });
    const storeRaw = async (raw: Buffer): Promise<NotTaken | undefined> => {
      const taken = admit(visit, chunkIn(raw));
      const use = { clientId: taken.chunk.clientId, events: 1, bytes: raw.length, movesMoney: false };
      expectQuota(ports.quotas, { ...use, side: "open" });
      if (underWay >= MOST_UNDER_WAY) throw unavailable("too many recordings are being stored", 2);
      underWay += 1;
      return ports.store(taken).finally(() => {
        underWay -= 1;
      });
    };
    const notTaken = await withBody(visit.request, { address: visit.address }, storeRaw, MAX_BYTES).catch(
      orUnavailable("recordings cannot be stored now", 5),
    );
    if (notTaken !== undefined) throw refused(notTaken, REFUSALS[notTaken]);
    send(visit, 204, {});
  };
};
