// GET and POST /postback/external/:source?key=: takes a payload of a source that authenticates with
// the key in its address. The payload of a GET is its query; that of a POST is JSON or a form.
import type { Request } from "express";
import { Problem, unavailable } from "../../../infra/http/problem.ts";
import { checkType, FORM_TYPE, withBody } from "../../../infra/http/read-body.ts";
import { refusals } from "../../../infra/http/tokens.ts";
import { signingSource } from "../../../modules/intake/sources/signed-payload.ts";
import type { KnownSource, OpenSources } from "../../../modules/intake/sources/source-picture.ts";
import { keyForm, readSourceId } from "../../../modules/intake/sources/sources.ts";
import type { OpenEdge } from "../edges.ts";
import { MAX_BYTES, openPayloadTaking } from "../postbacks/payload.ts";
import { arrivalOf } from "../postbacks/request.ts";

export const open: OpenEdge = (parts) => {
  const take = openPayloadTaking(parts, "external");
  const refused = refusals();
  return async (request, response) => {
    const began = performance.now();
    const address = request.ip ?? "";
    // Express answers HEAD with the GET handler, which would take an event.
    if (request.method === "HEAD")
      throw new Problem("method_not_allowed", "send GET or POST", { headers: { Allow: "GET, POST, OPTIONS" } });
    const source = await keyedSource(parts.sources, request);
    if (source === undefined) throw refused(address, new Problem("unauthorized", "the key is not that of the source"));
    await parts.inForce((known) => known.client(source.client_id));
    const receivedAt = Date.now();
    // A source whose client is archived is not active.
    const client = parts.clientFacts(source.client_id, receivedAt);
    if (source.state !== "active" || client === null || client === undefined)
      throw new Problem("not_found", "the source is not active");
    if (!source.allows(address))
      throw new Problem("forbidden", "this address is not on the list of the source", { code: "address_not_allowed" });
    parts.path.expectRoom();
    const arrival = arrivalOf(address, (name) => request.get(name), receivedAt);
    const answer = async (raw: Buffer, signer = source) =>
      void response.json(await take({ source: signer, bearsCredential: true, client, raw, arrival }, response, began));
    const isSealed = source.secret() !== undefined;
    if (request.method !== "POST") {
      // A query has no bytes to sign, and who has read the address somewhere has its key.
      if (isSealed) throw refused(address, unsigned("send POST: a query bears no signature"));
      return answer(fieldsIn(request.url.split("?")[1] ?? ""));
    }
    const isForm = checkType(request, ["identity", "gzip"], ["application/json", FORM_TYPE]) === FORM_TYPE;
    const sender = { token: `source ${source.source_id}`, address };
    const use = async (bytes: Buffer): Promise<void> => {
      const payload = { bytes, header: arrival.header, receivedAt };
      const signer = isSealed ? await signingSource(parts.sources, source, payload) : source;
      if (signer === undefined) throw refused(address, unsigned("the payload does not bear it"));
      await answer(isForm ? fieldsIn(bytes.toString("utf8")) : bytes, signer);
    };
    return withBody(request, sender, use, MAX_BYTES);
  };
};

const unsigned = (why: string): Problem =>
  new Problem("unauthorized", `the payloads of this source are signed, beside its key; ${why}`);

/** Returns the source of the key, if the path names the same source; otherwise undefined. */
const keyedSource = async (sources: OpenSources, { params, query }: Request): Promise<KnownSource | undefined> => {
  const { key } = query;
  const named = String(params.source);
  const find = (): KnownSource | undefined => {
    const found = typeof key === "string" ? sources.byKey(key) : undefined;
    return found?.slug === named || (found !== undefined && found.source_id === readSourceId(named))
      ? found
      : undefined;
  };
  const found = find();
  if (found?.state === "active") return found;
  if (typeof key !== "string" || !keyForm.test(key)) return found;
  // The key may be new, or the source active since just now.
  const isAsked = await sources.again();
  if (!sources.isKnown()) throw unavailable("the sources are not known here yet", 1);
  const newer = find();
  if (newer?.state !== "active" && !isAsked) throw unavailable("keys cannot be checked now: send it again", 2);
  return newer;
};

/** Returns a query or a form as JSON: the first value of each name, without the key. */
const fieldsIn = (text: string): Buffer => {
  const names = new Map<string, string>();
  for (const [name, value] of new URLSearchParams(text)) if (name !== "key" && !names.has(name)) names.set(name, value);
  return Buffer.from(JSON.stringify(Object.fromEntries(names)));
};
