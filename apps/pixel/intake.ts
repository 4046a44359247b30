// Decides about the events of one request: accepts them, keeps them as dead letters, or drops them
// because the client does not want them. Answers once they are stored.
import { isWithheld, maskInForce } from "../../domain/personal/consent.ts";
import { signalsIn } from "../../domain/personal/visitor.ts";
import { isNeverEvent, SAMPLES_A_MINUTE } from "../../edges/dead-letters.ts";
import { pixelEdges } from "../../edges/pixel.ts";
import { perMinute, perSecond } from "../../infra/http/direct/per-second.ts";
import { Problem } from "../../infra/http/problem.ts";
import { Unavailable } from "../../infra/runtime/errors.ts";
import type { Keyring } from "../../infra/runtime/keyring.ts";
import type { PixelSettings } from "../../modules/catalog/pixel/pixel-picture.ts";
import type { Sightings } from "../../modules/catalog/pixel/sightings.ts";
import type { AskClientFacts } from "../../modules/intake/path/facts.ts";
import type { HostedEdge } from "../../modules/intake/path/host-edge.ts";
import type { Path } from "../../modules/intake/path/path.ts";
import { type RefusalReason, refusedLetter, unknownClient, whyOf } from "../../modules/intake/path/refused-letter.ts";
import { expectQuota, type Quotas, quotaSpent, STRANGERS } from "../../modules/intake/quotas/quotas.ts";
import { isMoneyType } from "../../processors/admit/event-types.ts";
import type { PixelBody } from "../../processors/admit/pixel.ts";
import type { RequestFacts } from "../../processors/admit/request-terms.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { type Arrival, BadBody, type UnixMs } from "../../stream/flow.ts";
import type { OutputMessage } from "../../stream/messages.ts";
import { isPageAllowed } from "./pages.ts";

export interface TakePorts {
  readonly edge: HostedEdge<PixelBody, RequestFacts, EventReceived>;
  readonly path: Pick<Path, "store">;
  readonly facts: AskClientFacts;
  /** Undefined while no configuration is known. */
  readonly settingsOf: (clientId: number) => PixelSettings | undefined;
  readonly sightings: Pick<Sightings, "note">;
  readonly quotas: Pick<Quotas, "spend">;
  readonly keyring: Keyring;
  /** Monotonic milliseconds; defaults to the clock of the process. */
  readonly now?: () => number;
}
export interface PixelRequest {
  readonly body: Buffer;
  /** A body that is too large is not parsed, only kept. */
  readonly isTooLarge: boolean;
  readonly arrival: Arrival;
  /** The origin of the page; null if it is unknown. */
  readonly origin: string | null;
}
export interface TakenEvents {
  readonly accepted: number;
  /** Refused events by code: dead letters, and events that were dropped. */
  readonly refused: ReadonlyMap<string, number>;
  /** A visitor consented to analytics, so the device may be remembered. */
  readonly isSeen: boolean;
  /** The device of the first event, as its page names it; null: none. */
  readonly did: unknown;
  /** The domains that the client allows; empty if it allows every page. */
  readonly domains: readonly string[];
}

const EVENTS_A_SECOND = 600;
/** The limit for one address. A pixel that is being installed sends less. */
const LETTERS_A_SECOND = 50;
const ANALYTICS = 0x01;
/** A browser clock that is off by more than this is reported. */
const SKEW_MS = 5 * 60_000;

const tooMany = () =>
  new Problem("rate_limited", `an address sends ${EVENTS_A_SECOND} events of a client in a second`, {
    headers: { "Retry-After": "1" },
  });

/** Throws Problem 429, and Unavailable if the events cannot be stored anywhere. */
export type TakeRequest = (sent: PixelRequest) => Promise<TakenEvents>;

const [declared] = pixelEdges.declared;

export const openTaking = (ports: TakePorts): TakeRequest => {
  const events = perSecond(EVENTS_A_SECOND);
  const letters = perSecond(LETTERS_A_SECOND);
  const samples = perMinute(SAMPLES_A_MINUTE, ports.now);

  /**
   * Keeps a body without any acceptable event as one dead letter. What never becomes an event is
   * counted, and kept as a sample only: anyone may send any number of these.
   */
  const refuse = async ({ arrival, body }: PixelRequest, why: RefusalReason): Promise<TakenEvents> => {
    if (!letters.take(arrival.sender)) throw tooMany();
    // A host that does not know the clients yet cannot tell who is a stranger.
    const isStranger = why !== notReady;
    if (!isNeverEvent(why.code, isStranger) || samples.take(why.code)) {
      const letter = { events: 1, bytes: body.length, movesMoney: true };
      expectQuota(ports.quotas, { clientId: STRANGERS, side: "open", ...letter });
      const refused = { clientId: null, arrival, body, isStranger };
      await ports.path.store([refusedLetter(declared, refused, why, ports.keyring)], "pixel");
    }
    return { accepted: 0, refused: new Map([[why.code, 1]]), isSeen: false, did: null, domains: [] };
  };

  const takeBody = async (body: PixelBody, sent: PixelRequest): Promise<TakenEvents> => {
    const { clientId } = body;
    if (clientId === null) return refuse(sent, missingClient);
    const found = knownTo(ports, clientId, sent.arrival.receivedAt);
    if (found === "not_ready") return refuse(sent, notReady);
    if (found === null) return refuse(sent, unknownClient);
    const { settings, facts } = found;
    const seen = noteOn(ports, clientId, sent.origin);
    if (!isPageAllowed(sent.origin, settings.allowed_domains)) {
      seen("domain_not_allowed", sent.origin ?? "", body.events.length);
      const refused = new Map([["domain_not_allowed", body.events.length]]);
      return { accepted: 0, refused, isSeen: false, did: null, domains: settings.allowed_domains };
    }
    for (const _ of body.events) if (!events.take(`${clientId} ${sent.arrival.sender}`)) throw tooMany();
    const use = { clientId, events: body.events.length, bytes: sent.body.length, movesMoney: hasMoney(body) };
    if (!ports.quotas.spend({ ...use, side: "open" })) {
      seen("quota_spent", "", body.events.length);
      throw quotaSpent(use);
    }
    noteClock(body, sent, seen);
    return { ...(await admit(ports, sent, { body, facts, seen, letters })), domains: settings.allowed_domains };
  };

  return async (sent) => {
    if (sent.isTooLarge) return refuse(sent, tooLarge);
    let body: PixelBody;
    try {
      body = ports.edge.accepts(sent.body);
    } catch (error) {
      if (!(error instanceof BadBody)) throw error;
      return refuse(sent, whyOf(error));
    }
    return takeBody(body, sent);
  };
};

/** A body with one purchase is taken with all that it brings: its sender repeats it whole. */
const hasMoney = ({ events }: PixelBody): boolean => events.some((event) => isMoneyType(typeIn(event)));

const missingClient: RefusalReason = { code: "missing_cid", message: "send cid, the id of the client, once" };
const tooLarge: RefusalReason = { code: "body_too_large", message: "send at most 65536 bytes in a body" };
const notReady: RefusalReason = {
  code: "not_ready",
  message: "the clients were not known here yet: it is taken later",
};

const knownTo = (
  { facts, settingsOf }: TakePorts,
  clientId: number,
  now: UnixMs,
): { readonly facts: RequestFacts; readonly settings: PixelSettings } | "not_ready" | null => {
  try {
    const known = facts(clientId, now);
    const settings = settingsOf(clientId);
    if (settings === undefined) return "not_ready";
    return known === undefined || known === null ? null : { facts: known, settings };
  } catch (error) {
    if (error instanceof Unavailable) return "not_ready";
    throw error;
  }
};

type Note = (code: string, subject: string, count?: number, ms?: number) => void;
const noteOn =
  ({ sightings }: TakePorts, clientId: number, origin: string | null): Note =>
  (code, subject, count = 1, ms = 0) =>
    sightings.note({ client_id: clientId, code, subject: subject || (origin ?? ""), count, ms });

/**
 * Notes the difference between the browser's clock at sending and ours at receipt. An event that is
 * sent late has its own time.
 */
const noteClock = ({ sentAt }: PixelBody, { arrival: { receivedAt } }: PixelRequest, seen: Note): void => {
  const skew = sentAt === null ? 0 : Math.abs(receivedAt - sentAt);
  if (skew > SKEW_MS) seen("clock_skew", "", 1, Math.min(skew, Number.MAX_SAFE_INTEGER));
};

interface AdmissionInput {
  readonly body: PixelBody;
  readonly facts: RequestFacts;
  readonly seen: Note;
  readonly letters: { readonly take: (key: string) => boolean };
}

const admit = async (
  { edge, path, keyring }: TakePorts,
  { arrival }: PixelRequest,
  { body, facts, seen, letters }: AdmissionInput,
): Promise<Omit<TakenEvents, "domains">> => {
  let withheld = 0;
  let isSeen = false;
  const taken = await edge.take(body, arrival, facts, (data) => {
    if (isWithheld(data)) withheld += 1;
    else isSeen ||= (maskInForce(data.consent, signalsIn(data)) & ANALYTICS) !== 0;
    if (data.custom_name === "pixel_problem") seen("page_problem", problemIn(data.props));
  });
  const kept: OutputMessage[] = [];
  let isOver = false;
  for (const { index, refused } of taken.errors) {
    const { code, field, message } = refused.refusal;
    const event = body.events[index];
    seen(code, `${typeIn(event)} ${field ?? ""}`.trim());
    if (!letters.take(arrival.sender)) {
      isOver = true;
      break;
    }
    const alone = Buffer.from(JSON.stringify(event) ?? "null");
    const why = { code, message: field === null ? message : `${field} ${message}` };
    kept.push(refusedLetter(declared, { clientId: facts.clientId, arrival, body: alone }, why, keyring));
  }
  await (kept.length === 0 ? taken.stored : Promise.all([taken.stored, path.store(kept, "pixel")]));
  // The sender repeats the request: stored events stay the same, and the others are kept then.
  if (isOver) throw tooMany();
  if (taken.accepted > withheld) seen("taken", "", taken.accepted - withheld);
  if (withheld > 0) seen("without_consent", "", withheld);
  return { accepted: taken.accepted, refused: taken.refused, isSeen, did: deviceIn(body.events[0]) };
};

const deviceIn = (event: unknown): unknown =>
  typeof event === "object" && event !== null ? (event as { readonly did?: unknown }).did : null;

const typeIn = (event: unknown): string => {
  const t = typeof event === "object" && event !== null ? (event as { readonly t?: unknown }).t : null;
  return typeof t === "string" ? t.slice(0, 64) : "";
};

const problemIn = (props: string): string => {
  const { code } = JSON.parse(props) as { readonly code?: unknown };
  return typeof code === "string" ? code.slice(0, 64) : "unknown";
};
