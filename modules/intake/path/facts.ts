// Looks up an edge's facts about a client in the newest snapshot of the reference data, by client
// id or by token.

import { setTimeout as sleep } from "node:timers/promises";
import { acrossPepperOf, identifyFor, pepperOf } from "../../../domain/device-id.ts";
import type { Identify } from "../../../domain/personal/identify.ts";
import type { Reference, ReferenceAt } from "../../../domain/reference/reference.ts";
import { Unavailable } from "../../../infra/runtime/errors.ts";
import type { BatchFacts } from "../../../processors/admit/batch.ts";
import { consentDefaultOf, type RequestFacts } from "../../../processors/admit/request-terms.ts";
import type { UnixMs } from "../../../stream/flow.ts";
import type { Token } from "../../access/tokens/tokens.ts";
import type { OpenReference } from "../../catalog/reference/reference.ts";

/**
 * 100,000 devices take about 20 MB. A client with more devices at once pays two hashes for each
 * device beyond that.
 */
const DEVICES_REMEMBERED = 100_000;
const CLIENTS_REMEMBERED = 8;

/**
 * Returns the facts by client id; null for an archived client, undefined for a client that is not
 * in the snapshot. Throws Unavailable before the first snapshot, or while the pepper is not
 * confirmed to be the installation's.
 */
export type AskClientFacts = (clientId: number, now: UnixMs) => RequestFacts | null | undefined;

/**
 * Resolves once what `find` looks for is in force here, so that the first requests of a new client
 * or partner are not refused; at once if it is, or if there is no such thing. Throws Unavailable if
 * that cannot be found out.
 */
export type AwaitInForce = (find: (known: ReferenceAt) => unknown) => Promise<void>;

/** A change is in force two seconds after its commit; the rest is for clocks that differ. */
const LONGEST_WAIT_MS = 3_000;
const PAUSE_MS = 100;

export const awaitInForceOf =
  ({ reference, again }: Pick<OpenReference, "reference" | "again">): AwaitInForce =>
  async (find) => {
    const isFoundAt = (now: UnixMs): boolean => {
      const known = reference()?.at(now, now);
      return known !== undefined && Boolean(find(known));
    };
    const began = Date.now();
    if (isFoundAt(began)) return;
    const isAsked = await again();
    const end = began + LONGEST_WAIT_MS;
    if (!isFoundAt(end)) {
      if (!isAsked) throw new Unavailable("new clients and partners cannot be looked up now: send it again", 2);
      return;
    }
    while (!isFoundAt(Date.now()) && Date.now() < end) await sleep(PAUSE_MS);
  };

export const clientFactsOf = (pepper: () => string, reference: () => Reference | undefined): AskClientFacts => {
  const identities = new Map<number, Identify>();
  const made = (clientId: number): Identify =>
    identifyFor(pepperOf(pepper(), clientId), DEVICES_REMEMBERED, acrossPepperOf(pepper()));
  const identify = (clientId: number): Identify => {
    const known = identities.get(clientId) ?? made(clientId);
    identities.delete(clientId);
    identities.set(clientId, known);
    if (identities.size > CLIENTS_REMEMBERED) identities.delete(identities.keys().next().value!);
    return known;
  };

  return (clientId, now) => {
    const picture = reference();
    if (picture === undefined) throw new Unavailable("the clients are not known here yet", 1);
    const client = picture.at(now, now).client(clientId);
    if (client === undefined) return undefined;
    if (client.status === "archived") return null;
    return {
      clientId,
      segments: client.segments,
      consentDefault: consentDefaultOf(client),
      identify: identify(clientId),
    };
  };
};

/**
 * Returns null for an archived client, whose tokens are no longer valid. Throws Unavailable while
 * the client is not in the snapshot yet, or the pepper is not confirmed to be the installation's.
 */
export type EdgeFacts = (token: Token, now: UnixMs) => BatchFacts | null;

export const factsOf = (pepper: () => string, reference: () => Reference | undefined): EdgeFacts => {
  const ask = clientFactsOf(pepper, reference);
  return ({ client_id: clientId, client_side: isClientSide }, now) => {
    const client = clientId === null ? undefined : ask(clientId, now);
    if (client === undefined) throw new Unavailable("the client of this token is not known here yet", 1);
    return client === null ? null : { ...client, isClientSide };
  };
};
