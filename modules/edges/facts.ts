// What an edge knows about the holder of a token: its client as the newest picture of the reference
// data has it.

import { type Identify, identifyFor, pepperOf } from "../../domain/device-id.ts";
import type { Reference } from "../../domain/reference/reference.ts";
import { Unavailable } from "../../infra/runtime/errors.ts";
import type { BatchFacts } from "../../processors/admit/batch.ts";
import { consentDefaultOf } from "../../processors/admit/consent-default.ts";
import type { UnixMs } from "../../stream/flow.ts";
import type { Token } from "../access/tokens.ts";

/**
 * 100,000 devices are about 20 MB; a client with more of them at once pays two hashes for the rest.
 */
const DEVICES_REMEMBERED = 100_000;
const CLIENTS_REMEMBERED = 8;

/**
 * Null for a client that is archived: its tokens open nothing any more. Throws Unavailable while
 * the client is not in the picture yet, or the pepper is not known to be the installation's.
 */
export type EdgeFacts = (token: Token, now: UnixMs) => BatchFacts | null;

export const factsOf = (pepper: () => string, reference: () => Reference | undefined): EdgeFacts => {
  const identities = new Map<number, Identify>();
  const identify = (clientId: number): Identify => {
    const known = identities.get(clientId) ?? identifyFor(pepperOf(pepper(), clientId), DEVICES_REMEMBERED);
    identities.delete(clientId);
    identities.set(clientId, known);
    if (identities.size > CLIENTS_REMEMBERED) identities.delete(identities.keys().next().value!);
    return known;
  };

  return (token, now) => {
    const client = token.client_id === null ? undefined : reference()?.at(now, now).client(token.client_id);
    if (client === undefined) throw new Unavailable("the client of this token is not known here yet", 1);
    if (client.status === "archived") return null;
    return {
      clientId: client.client_id,
      segments: client.segments,
      consentDefault: consentDefaultOf(client),
      isClientSide: token.client_side,
      identify: identify(client.client_id),
    };
  };
};
