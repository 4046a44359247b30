// POST /postback/generic: a payload of a source of the client, mapped to an event.
import type { Request } from "express";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { checkType, withBody } from "../../../infra/http/read-body.ts";
import { refusals } from "../../../infra/http/tokens.ts";
import { isSignedPayload } from "../../../modules/sources/signed-payload.ts";
import type { KnownSource, OpenSources } from "../../../modules/sources/source-picture.ts";
import type { OpenEdge } from "../edges.ts";
import { arrivalOf, askedClient } from "../postbacks/asked.ts";
import { MAX_BYTES, openPayloadTaking } from "../postbacks/payload.ts";

export const open: OpenEdge = (parts) => {
  const take = openPayloadTaking(parts, "generic");
  const refused = refusals();
  return async (request, response) => {
    const began = performance.now();
    const receivedAt = Date.now();
    const address = request.ip ?? "";
    const client = askedClient(parts.clientFacts, request, receivedAt);
    const source = askedSource(parts.sources, request, client.clientId);
    if (!source.allows(address))
      throw new Problem("forbidden", "this address is not on the list of the source", { code: "address_not_allowed" });
    checkType(request);
    parts.path.expectRoom();
    const arrival = arrivalOf(request, receivedAt);
    const sender = { token: `source ${source.source_id}`, address };
    await withBody(
      request,
      sender,
      async (bytes) => {
        const secret = source.secret();
        const signed = { bytes, header: arrival.header, receivedAt };
        if (secret !== undefined && !isSignedPayload(signed, secret)) throw refused(address, notSigned());
        await take({ source, client, raw: bytes, arrival }, response, began);
      },
      MAX_BYTES,
    );
  };
};

const notSigned = (): Problem =>
  new Problem(
    "unauthorized",
    "the payload does not bear the signature of this source: send X-Svc-Signature, or webhook-id, webhook-timestamp " +
      "and webhook-signature",
  );

/** Throws Problem 404 for a source that is not active, 400 where several are and none is named. */
const askedSource = (sources: OpenSources, { query }: Request, clientId: number): KnownSource => {
  if (!sources.isKnown()) throw unavailable("the sources are not known here yet", 1);
  const active = sources.activeOf(clientId).filter(({ kind }) => kind === "generic");
  const { source: slug } = query;
  if (slug !== undefined) {
    const named = sources.activeOf(clientId).find((one) => one.slug === slug);
    if (named === undefined) throw new Problem("not_found", "source names no active source of the client");
    return named;
  }
  if (active.length === 1) return active[0]!;
  if (active.length === 0) throw new Problem("not_found", "the client has no active generic source");
  const detail = "must be given: the client has several active generic sources";
  throw new Problem("validation_failed", `source ${detail}`, {
    errors: [{ pointer: "/source", code: "missing", detail }],
  });
};
