// POST /postback/:processor: passes a notice that a payment provider has signed to the edge of the
// topology, and answers once its event or its dead letter is stored.
import { createHash } from "node:crypto";
import type { Request, Response } from "express";
import { uuidOf } from "../../../domain/ids.ts";
import { edges } from "../../../edges.ts";
import { takePlace } from "../../../infra/http/limits.ts";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { checkType, withBody } from "../../../infra/http/read-body.ts";
import { senderOf } from "../../../infra/http/sender.ts";
import { refusals } from "../../../infra/http/tokens.ts";
import { orUnavailable } from "../../../infra/runtime/errors.ts";
import { hostEdge } from "../../../modules/intake/path/host-edge.ts";
import { type RefusalReason, refusedLetter } from "../../../modules/intake/path/refused-letter.ts";
import {
  bearsPassword,
  type ProviderSettings,
  withSettings,
} from "../../../modules/intake/payment-notices/provider-settings.ts";
import { expectQuota } from "../../../modules/intake/quotas/quotas.ts";
import {
  envelopeOf,
  lookedUp,
  lookUpOf,
  type PostbackBody,
  type PostbackFacts,
} from "../../../processors/admit/payments/postback.ts";
import type { PaymentProvider } from "../../../processors/admit/payments/provider.ts";
import { providerNames, providerOf } from "../../../processors/admit/payments/providers.ts";
import { type Arrival, BadBody } from "../../../stream/flow.ts";
import { edgesOf } from "../../../stream/topology.ts";
import type { EdgeParts, OpenEdge } from "../edges.ts";
import { arrivalOf, askedClient } from "../postbacks/request.ts";

/** About ten times the largest notices of payment providers. */
const MAX_BYTES = 256 * 1024;
/** The limit of one address; a payment provider sends from few addresses. */
const REQUESTS_A_MINUTE = 6_000;
/** The provider waits this long before it sends again, because a person has to save the token. */
const NO_TOKEN_SEC = 600;

const declared = edgesOf(edges).find(({ name }) => name === "postback")!;

interface PostbackRequest {
  readonly processor: PaymentProvider;
  readonly facts: PostbackFacts;
  readonly raw: Buffer;
  readonly arrival: Arrival;
}
interface Answer {
  readonly status: "accepted" | "duplicate" | "ignored";
  /** The id under which the sender can look the event up; null if the notice is no event. */
  readonly event_id: string | null;
}

export const open: OpenEdge = (parts) => {
  const take = taking(parts);
  const refused = refusals();
  return async (request, response) => {
    const began = performance.now();
    const counted: { accepted: number; refused: ReadonlyMap<string, number> } = { accepted: 0, refused: new Map() };
    response.once("close", () => {
      const seconds = (performance.now() - began) / 1_000;
      parts.count({ edge: "postback", status: response.statusCode, seconds, ...counted });
    });
    const address = request.ip ?? "";
    const processor = providerIn(request);
    const facts = await askedClient(parts, request.query.client_id);
    const receivedAt = Date.now();
    await expectPlace(parts, address, response);
    checkType(request, ["identity"]);
    parts.path.expectRoom();
    const answer = await withBody(
      request,
      { address },
      async (raw) => {
        const sent = { processor, facts, raw, arrival: arrivalOf(address, (name) => request.get(name), receivedAt) };
        const settings = await signingSettings(parts, sent, request);
        if (settings === undefined) throw refused(address, notSigned(processor));
        const use = { clientId: facts.clientId, side: "signed", events: 1, bytes: raw.length } as const;
        expectQuota(parts.quotas, { ...use, movesMoney: true });
        return take(await whole(parts, sent, settings), counted);
      },
      MAX_BYTES,
      "as it came",
    );
    response.json(answer);
  };
};

/** Throws Problem 404 for an unknown payment provider. */
const providerIn = ({ params }: Request): PaymentProvider => {
  const found = providerOf(String(params.processor));
  if (found !== undefined) return found;
  throw new Problem("not_found", `no such payment processor is known: ${providerNames.join(", ")}`);
};

const expectPlace = async ({ limit }: EdgeParts, address: string, response: Response): Promise<void> => {
  const verdict = await limit(`postback:${senderOf(address)}`, REQUESTS_A_MINUTE);
  takePlace(verdict, REQUESTS_A_MINUTE, response, `an address may send ${REQUESTS_A_MINUTE} postbacks a minute`);
};

/** The settings whose secret has signed the notice, also if they were saved just now. */
const signingSettings = async (
  parts: EdgeParts,
  sent: PostbackRequest,
  request: Request,
): Promise<ProviderSettings | undefined> => {
  const settings = await settingsOf(parts, sent);
  if (isSigned(parts, sent, request, settings)) return settings;
  await parts.processors.renew(sent.facts.clientId);
  const newer = await settingsOf(parts, sent);
  return isSigned(parts, sent, request, newer) ? newer : undefined;
};

const settingsOf = (
  { processors }: EdgeParts,
  { processor, facts }: PostbackRequest,
): Promise<ProviderSettings | undefined> =>
  processors
    .settingsOf(facts.clientId, processor.name)
    .catch(orUnavailable("signatures cannot be checked now: send it again", 2));

const isSigned = (
  { processors }: EdgeParts,
  { processor, raw, arrival }: PostbackRequest,
  { query }: Request,
  settings: ProviderSettings | undefined,
): boolean => {
  const valueIn = (name: string): string | undefined => {
    const value = query[name];
    return typeof value === "string" ? value : undefined;
  };
  const asked = { body: raw, header: arrival.header, query: valueIn, receivedAt: arrival.receivedAt };
  const isOurs = processor.isSigned(asked, settings?.secret, processors.dummy);
  return isOurs && bearsPassword(arrival.header("authorization"), settings ?? {});
};

/**
 * Reads the payment from the provider's API. Nothing is stored before that: on 503 the provider
 * sends the notice again.
 */
const whole = async (
  parts: EdgeParts,
  sent: PostbackRequest,
  settings: ProviderSettings | undefined,
): Promise<PostbackRequest> => {
  const facts = withSettings(sent.facts, settings);
  const path = lookUpOf(sent.processor, sent.raw);
  if (path === undefined) return { ...sent, facts };
  if (settings?.access_token === undefined)
    throw unavailable("the payment of a notice is looked up: save the access token of the account", NO_TOKEN_SEC);
  const data = await parts.lookUp(path, settings.access_token);
  return { ...sent, facts, raw: lookedUp(sent.raw, data) };
};

/** The answer is the same for every fault, and for a client without an account at the provider. */
const notSigned = ({ name }: PaymentProvider): Problem =>
  new Problem("unauthorized", `the signature is not that of the client's account at ${name}, or is too old`);

type RequestCounts = { accepted: number; refused: ReadonlyMap<string, number> };

/** Throws Problem 400 with the place of the refused field, once the dead letter is stored. */
const taking = (parts: EdgeParts) => {
  const edge = hostEdge(edges, "postback", parts);
  return async (sent: PostbackRequest, counted: RequestCounts): Promise<Answer> => {
    const { processor, facts, raw, arrival } = sent;
    const envelope = envelopeOf(processor.name, facts.clientId, raw);
    let body: PostbackBody;
    try {
      body = edge.accepts(envelope);
    } catch (error) {
      if (error instanceof BadBody) await keep(parts, sent, envelope, error);
      throw error;
    }
    if (body.events.length === 0) return { status: "ignored", event_id: null };
    const seen = { clientId: facts.clientId, source: `postback:${processor.name}`, key: body.notice ?? "" };
    if (body.notice !== null && (await parts.marks.isMarked(seen))) return { status: "duplicate", event_id: null };
    let eventId: string | null = null;
    const taken = await edge.take(body, arrival, facts, (data) => {
      eventId ??= data.sender_event_id;
    });
    await taken.stored;
    counted.accepted = taken.accepted;
    const [first] = taken.errors;
    if (first !== undefined) {
      counted.refused = taken.refused;
      const { code, field, message } = first.refused.refusal;
      const detail = field === null ? message : `${field} ${message}`;
      await keep(parts, sent, envelope, { code, message: detail });
      const pointer = field === null ? "" : `/${field.replaceAll(".", "/")}`;
      throw new Problem("validation_failed", detail, { errors: [{ pointer, code, detail: message }] });
    }
    const mark = await parts.marks.mark(seen);
    return { status: mark === "new" ? "accepted" : "duplicate", event_id: eventId };
  };
};

/** The same notice, sent again, has the same dead letter. */
const keep = (
  parts: EdgeParts,
  sent: PostbackRequest,
  body: Buffer,
  { code, message }: RefusalReason,
): Promise<void> => {
  const { facts, arrival } = sent;
  const root = uuidOf("postback", createHash("sha256").update(body).digest("hex"));
  const letter = refusedLetter(
    declared,
    { clientId: facts.clientId, arrival, body, root },
    { code, message },
    parts.keyring,
  );
  return parts.path.store([letter], "s2s");
};
