// POST /postback/generic: takes a payload of a client's source and maps it to an event.
import { headersOf, send } from "../../../infra/http/direct/direct-host.ts";
import { perSecond } from "../../../infra/http/direct/per-second.ts";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { checkType, withBody } from "../../../infra/http/read-body.ts";
import { senderOf } from "../../../infra/http/sender.ts";
import { refusals } from "../../../infra/http/tokens.ts";
import { signingSource } from "../../../modules/intake/sources/signed-payload.ts";
import type { KnownSource, OpenSources } from "../../../modules/intake/sources/source-picture.ts";
import type { OpenDirect } from "../edges.ts";
import { MAX_BYTES, openPayloadTaking } from "../postbacks/payload.ts";
import { arrivalOf, askedClient } from "../postbacks/request.ts";

/**
 * What an address may send of one source in a second without a signature, as on the other doors
 * that strangers use (docs/design/contracts.md, "Limits").
 */
const UNSIGNED_A_SECOND = 600;

export const openDirect: OpenDirect = (parts) => {
  const take = openPayloadTaking(parts, "generic");
  const refused = refusals();
  const unsigned = perSecond(UNSIGNED_A_SECOND);
  return async (visit) => {
    const { request, response, address } = visit;
    const began = performance.now();
    const asked = new URLSearchParams(visit.query);
    const client = await askedClient(parts, onceIn(asked, "client_id"));
    const source = await askedSource(parts.sources, onceIn(asked, "source"), client.clientId);
    const receivedAt = Date.now();
    if (!source.allows(address))
      throw new Problem("forbidden", "this address is not on the list of the source", { code: "address_not_allowed" });
    if (source.secret() === undefined && !unsigned.take(`${source.source_id} ${senderOf(address)}`)) throw tooMany();
    checkType(request);
    parts.path.expectRoom();
    const arrival = arrivalOf(address, headersOf(visit), receivedAt);
    const sender = { token: `source ${source.source_id}`, address };
    const use = async (raw: Buffer) => {
      const payload = { bytes: raw, header: arrival.header, receivedAt };
      const signer = source.secret() === undefined ? source : await signingSource(parts.sources, source, payload);
      if (signer === undefined) throw refused(address, notSigned());
      const bearsCredential = signer.secret() !== undefined;
      return take({ source: signer, bearsCredential, client, raw, arrival }, response, began);
    };
    const answer = await withBody(request, sender, use, MAX_BYTES);
    send(visit, 200, { "Content-Type": "application/json; charset=utf-8" }, JSON.stringify(answer));
  };
};

/**
 * Returns undefined for an absent parameter, and the list for a repeated one, which is no valid
 * value.
 */
const onceIn = (asked: URLSearchParams, name: string): unknown => {
  const given = asked.getAll(name);
  return given.length > 1 ? given : given[0];
};

const tooMany = (): Problem =>
  new Problem("rate_limited", `an address sends ${UNSIGNED_A_SECOND} unsigned payloads of a source in a second`, {
    headers: { "Retry-After": "1" },
  });

const notSigned = (): Problem =>
  new Problem(
    "unauthorized",
    "the payload does not bear the signature of this source: send X-Svc-Signature, or webhook-id, webhook-timestamp " +
      "and webhook-signature",
  );

/**
 * Sources of the other kinds have a key in their address, which this door does not ask for: without
 * a signature anyone could send in their name.
 */
const isTakenHere = (source: KnownSource): boolean => source.kind === "generic" || source.secret() !== undefined;

/** Throws Problem 404 if the source is not active, 400 if none is named and several are active. */
const askedSource = async (sources: OpenSources, slug: unknown, clientId: number): Promise<KnownSource> => {
  const found = (): readonly KnownSource[] =>
    sources.activeOf(clientId).filter((one) => (slug === undefined ? one.kind === "generic" : one.slug === slug));
  // A source, or the secret that lets it send here, may be new.
  const isAsked = found().some(isTakenHere) || (await sources.again());
  if (!sources.isKnown()) throw unavailable("the sources are not known here yet", 1);
  if (!isAsked && !found().some(isTakenHere))
    throw unavailable("new sources cannot be looked up now: send it again", 2);
  const [source, ...others] = found();
  if (source === undefined || !isTakenHere(source))
    throw new Problem(
      "not_found",
      slug === undefined
        ? "the client has no active generic source"
        : "source names no active source of the client that sends here",
    );
  if (others.length === 0) return source;
  const detail = "must be given: the client has several active generic sources";
  throw new Problem("validation_failed", `source ${detail}`, {
    errors: [{ pointer: "/source", code: "missing", detail }],
  });
};
