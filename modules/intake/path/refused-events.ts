// Admits a refused event again when its letter is due, by today's code and reference data.
import { edges } from "../../../edges.ts";
import { placeOf } from "../../../infra/kafka/kafka.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { RequestFacts } from "../../../processors/admit/request-terms.ts";
import { deadLetterOf, letterHeaders } from "../../../stream/dead-letters.ts";
import type { Admission, AnyEdge, Arrival, UnixMs } from "../../../stream/flow.ts";
import type { InputMessage, OutputMessage } from "../../../stream/messages.ts";
import { edgesOf } from "../../../stream/topology.ts";
import type { Wire } from "../../../stream/wire.ts";
import type { SentLetter } from "../../log/dead-letters/retry.ts";
import type { AskClientFacts } from "./facts.ts";
import { openRefused, type RefusalReason, unknownClient, unplaced, whyOf } from "./refused-letter.ts";

export interface ReadmitPorts {
  readonly keyring: Keyring;
  readonly wire: Wire;
  readonly facts: AskClientFacts;
  /** The facts of each edge besides the client, by the edge's name; a reason when they are gone. */
  readonly moreFacts?: Readonly<Record<string, MoreFacts>>;
  readonly clock: () => UnixMs;
}
/** Called for a body that the edge has accepted. */
type MoreFacts = (
  body: any,
  client: RequestFacts,
) => RequestFacts | RefusalReason | Promise<RequestFacts | RefusalReason>;

/**
 * Returns what a due letter puts into the log: the records that today's code and reference data
 * admit, under the ids and times of the first arrival, and for what is still refused a record that
 * names the letter. Undefined for a record that no edge kept or that cannot be decrypted. Throws
 * Unavailable while the clients are not loaded.
 */
export const readmitted = async (
  { keyring, wire, facts, moreFacts, clock }: ReadmitPorts,
  { value, headers }: Pick<InputMessage, "value" | "headers">,
  letter: SentLetter,
): Promise<readonly OutputMessage[] | undefined> => {
  const stage = String(headers[letterHeaders.stage]);
  const edge = edgesOf(edges).find(({ name }) => name === stage);
  const kept = edge === undefined ? undefined : openRefused(value, edge.name, keyring);
  if (edge === undefined || kept === undefined) return undefined;
  const body = Buffer.from(kept.body, "base64");
  const arrival: Arrival = {
    receivedAt: kept.received_at,
    sender: kept.address ?? "",
    address: kept.address,
    header: (name) => kept.headers[name],
  };
  const again = (why: RefusalReason): OutputMessage =>
    repeated(edge, letter, { headers, receivedAt: arrival.receivedAt }, why);
  let accepted: { readonly events: readonly unknown[]; readonly clientId?: number | null };
  try {
    accepted = edge.accepts(body);
  } catch (error) {
    return [again(whyOf(error))];
  }
  // An event of one client must not become another client's: its page was on the former client's
  // list.
  const isOther = kept.client_id !== null && accepted.clientId !== kept.client_id;
  const client = accepted.clientId == null || isOther ? undefined : facts(accepted.clientId, clock());
  if (client === undefined || client === null) return [again(unknownClient)];
  const known = (await moreFacts?.[edge.name]?.(accepted, client)) ?? client;
  return "code" in known ? [again(known)] : admittedAgain(edge, accepted, { arrival, client: known, wire, again });
};

interface RetryInput {
  readonly arrival: Arrival;
  readonly client: RequestFacts;
  readonly wire: Wire;
  readonly again: (why: RefusalReason) => OutputMessage;
}

const admittedAgain = (
  edge: AnyEdge,
  body: { readonly events: readonly unknown[] },
  { arrival, client, wire, again }: RetryInput,
): readonly OutputMessage[] => {
  const { to } = edge;
  const found: OutputMessage[] = [];
  for (const admission of edge.admit(body, arrival, client) as Iterable<Admission<any>>) {
    if (admission.kind === "refused") return [again(admission.refusal)];
    const { id, at, data } = admission;
    const key = to.keyOf(data);
    const position = { topic: to.name, partition: -1, offset: -1 };
    const event = { id, key, at, receivedAt: arrival.receivedAt, position, data };
    found.push({ topic: to.name, key, value: wire.encode(to, event, null) });
  }
  return found;
};

const LASTING = ["attempt", "firstFailedAt", "client", "sender", "stranger"] as const;
/**
 * The record of a retry that failed again. It names the first letter and keeps no copy of it: ten
 * retries of 64 KiB would otherwise write 1.2 MB. Its headers continue those of the first letter.
 */
const repeated = (
  edge: AnyEdge,
  { root, first }: SentLetter,
  { headers: before, receivedAt }: Pick<InputMessage, "headers"> & { readonly receivedAt: UnixMs },
  why: RefusalReason,
): OutputMessage => {
  const lasting = LASTING.flatMap((name) => {
    const value = before[letterHeaders[name]];
    return value === undefined ? [] : [[letterHeaders[name], value] as const];
  });
  const headers = {
    ...Object.fromEntries(lasting),
    [letterHeaders.letter]: root,
    [letterHeaders.first]: placeOf(first),
  };
  return deadLetterOf({ ...unplaced(edge, why), value: null, headers }, receivedAt);
};
