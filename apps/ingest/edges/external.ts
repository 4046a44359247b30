// GET and POST /postback/external/:source?key=: takes a payload of a source that authenticates with
// the key in its address. The payload of a GET is its query; that of a POST is JSON or a form.
import type { Request } from "express";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { checkType, FORM_TYPE, withBody } from "../../../infra/http/read-body.ts";
import { refusals } from "../../../infra/http/tokens.ts";
import { isSignedPayload } from "../../../modules/intake/sources/signed-payload.ts";
import type { KnownSource, OpenSources } from "../../../modules/intake/sources/source-picture.ts";
import { readSourceId } from "../../../modules/intake/sources/sources.ts";
import type { OpenEdge } from "../edges.ts";
import { MAX_BYTES, openPayloadTaking } from "../postbacks/payload.ts";
import { arrivalOf } from "../postbacks/request.ts";

export const open: OpenEdge = (parts) => {
  const take = openPayloadTaking(parts, "external");
  const refused = refusals();
  return async (request, response) => {
    const began = performance.now();
    const receivedAt = Date.now();
    const address = request.ip ?? "";
    // Express answers HEAD with the GET handler, which would take an event.
    if (request.method === "HEAD")
      throw new Problem("method_not_allowed", "send GET or POST", { headers: { Allow: "GET, POST, OPTIONS" } });
    const source = keyedSource(parts.sources, request);
    if (source === undefined) throw refused(address, new Problem("unauthorized", "the key is not that of the source"));
    // A source whose client is archived is not active.
    const client = parts.clientFacts(source.client_id, receivedAt);
    if (source.state !== "active" || client === null || client === undefined)
      throw new Problem("not_found", "the source is not active");
    if (!source.allows(address))
      throw new Problem("forbidden", "this address is not on the list of the source", { code: "address_not_allowed" });
    parts.path.expectRoom();
    const arrival = arrivalOf(address, (name) => request.get(name), receivedAt);
    const answer = async (raw: Buffer) =>
      void response.json(await take({ source, client, raw, arrival }, response, began));
    const secret = source.secret();
    if (request.method !== "POST") {
      // A query has no bytes to sign, and who has read the address somewhere has its key.
      if (secret !== undefined) throw refused(address, unsigned("send POST: a query bears no signature"));
      return answer(fieldsIn(request.url.split("?")[1] ?? ""));
    }
    const isForm = checkType(request, ["identity", "gzip"], ["application/json", FORM_TYPE]) === FORM_TYPE;
    const sender = { token: `source ${source.source_id}`, address };
    const use = async (bytes: Buffer): Promise<void> => {
      if (secret !== undefined && !isSignedPayload({ bytes, header: arrival.header, receivedAt }, secret))
        throw refused(address, unsigned("the payload does not bear it"));
      await answer(isForm ? fieldsIn(bytes.toString("utf8")) : bytes);
    };
    return withBody(request, sender, use, MAX_BYTES);
  };
};

const unsigned = (why: string): Problem =>
  new Problem("unauthorized", `the payloads of this source are signed, beside its key; ${why}`);

/** Returns the source of the key, if the path names the same source; otherwise undefined. */
const keyedSource = (sources: OpenSources, { params, query }: Request): KnownSource | undefined => {
  if (!sources.isKnown()) throw unavailable("the sources are not known here yet", 1);
  const found = typeof query.key === "string" ? sources.byKey(query.key) : undefined;
  const named = String(params.source);
  return found?.slug === named || (found !== undefined && found.source_id === readSourceId(named)) ? found : undefined;
};

/** Returns a query or a form as JSON: the first value of each name, without the key. */
const fieldsIn = (text: string): Buffer => {
  const names = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) if (name !== "key" && !names.has(name)) names.set(name, value);
  return Buffer.from(JSON.stringify(Object.fromEntries(names)));
};
