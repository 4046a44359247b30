// Reads the request of a postback apart from its body: the client that its address names, and its
// arrival.
import { Problem } from "../../../infra/http/problem.ts";
import type { RequestFacts } from "../../../processors/admit/request-terms.ts";
import type { Arrival, UnixMs } from "../../../stream/flow.ts";
import type { EdgeParts } from "../edges.ts";

/**
 * `given` is the parameter client_id: a text if it is given once. Waits for a client that was made
 * just now. Throws Problem 400 and 404, and Unavailable while the clients are not known.
 */
export const askedClient = async (
  { clientFacts, inForce }: Pick<EdgeParts, "clientFacts" | "inForce">,
  given: unknown,
): Promise<RequestFacts> => {
  const id = typeof given === "string" && /^[1-9]\d{0,9}$/.test(given) ? Number(given) : 0;
  if (id === 0 || id >= 2 ** 31) {
    const detail = "must be given once: the id of the client whose account this is";
    throw new Problem("validation_failed", `client_id ${detail}`, {
      errors: [{ pointer: "/client_id", code: given === undefined ? "missing" : "bad_client_id", detail }],
    });
  }
  await inForce((known) => known.client(id));
  const facts = clientFacts(id, Date.now());
  if (facts === undefined || facts === null) throw new Problem("not_found", "client_id names no client that is in use");
  return facts;
};

export const arrivalOf = (address: string, header: Arrival["header"], receivedAt: UnixMs): Arrival => ({
  receivedAt,
  sender: address,
  address: address === "" ? null : address,
  header,
});
