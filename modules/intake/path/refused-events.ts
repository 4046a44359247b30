// Dead letters of an edge whose senders do not read refusals. A refused event is kept as it was
// received, encrypted under a key of the installation, and admitted again when its letter is due.

import { edges } from "../../../edges.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import type { RequestFacts } from "../../../processors/admit/request-terms.ts";
import { deadLetterOf, letterHeaders } from "../../../stream/dead-letters.ts";
import type { Admission, AnyEdge, Arrival, Recorded, UnixMs } from "../../../stream/flow.ts";
import type { InputMessage, OutputMessage } from "../../../stream/messages.ts";
import { edgesOf } from "../../../stream/topology.ts";
import type { Wire } from "../../../stream/wire.ts";
import { seal, unseal } from "../../access/secrets/seal.ts";
import type { AskClientFacts } from "./facts.ts";

/** A request with a refused part, with what a second admission needs of it. */
export interface RefusedArrival {
  /** The client that it names, if that client exists. */
  readonly clientId: number | null;
  readonly arrival: Arrival;
  /** A body with only the refused event, or the whole body when it cannot be parsed. */
  readonly body: Uint8Array;
  /** A UUID: a second refusal under the same root belongs to the same letter. */
  readonly root?: string;
}
export interface RefusalReason {
  readonly code: string;
  readonly message: string;
}
/** The stored form; `body` is base64. */
interface StoredRefusal {
  readonly edge: string;
  readonly client_id: number | null;
  readonly received_at: UnixMs;
  readonly address: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The request headers that admission reads. */
const HEADERS = ["user-agent", "sec-gpc", "dnt"] as const;
/**
 * Browsers may send anything, so their bodies are cut. A postback is signed, so it is kept whole,
 * with its query.
 */
const mostBytes = (edge: string): number => (edge === "pixel" ? 65_536 : 266_240);
const SENDER = /^(src_\d{1,10}|[a-z]{2,40}) \d{1,10}\n/;
const place = (edge: string): string => `dead letter/${edge}`;

/**
 * The record that keeps a refused event; a longer body is cut. No personal data is outside of the
 * encrypted part.
 */
export const refusedLetter = (
  edge: Pick<AnyEdge, "name" | "to">,
  { clientId, arrival, body, root }: RefusedArrival,
  { code, message }: RefusalReason,
  keyring: Keyring,
): OutputMessage => {
  const headers = HEADERS.flatMap((name) => {
    const value = arrival.header(name);
    return value === undefined ? [] : [[name, value.slice(0, 1_024)] as const];
  });
  const kept: StoredRefusal = {
    edge: edge.name,
    client_id: clientId,
    received_at: arrival.receivedAt,
    address: arrival.address,
    headers: Object.fromEntries(headers),
    body: Buffer.from(body).subarray(0, mostBytes(edge.name)).toString("base64"),
  };
  const letter = {
    to: edges.deadLetters({ data: { source: edge.name } } as Recorded<any>),
    stage: edge.name,
    code,
    message,
    // The record never had a position in the log.
    position: { topic: edge.to.name, partition: -1, offset: -1 },
    key: null,
    value: Buffer.from(seal(JSON.stringify(kept), place(edge.name), keyring)),
    headers: {
      ...(clientId !== null && { [letterHeaders.client]: String(clientId) }),
      ...senderIn(edge.name, body),
      ...(root !== undefined && { [letterHeaders.letter]: root }),
    },
  };
  return deadLetterOf(letter, arrival.receivedAt);
};

/**
 * Returns the header with the source (src_7) or payment provider whose settings parse the body. The
 * first line of the body names it.
 */
const senderIn = (edge: string, body: Uint8Array): Readonly<Record<string, string>> => {
  const head = edge === "pixel" ? null : SENDER.exec(Buffer.from(body).toString("latin1", 0, 64));
  return head === null ? {} : { [letterHeaders.sender]: head[1]! };
};

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
 * admit, under the ids and times of the first arrival, and another letter for what is still
 * refused. Undefined for a record that no edge kept or that cannot be decrypted. Throws Unavailable
 * while the clients are not loaded.
 */
export const readmitted = async (
  { keyring, wire, facts, moreFacts, clock }: ReadmitPorts,
  { value, headers }: Pick<InputMessage, "value" | "headers">,
  root: string,
): Promise<readonly OutputMessage[] | undefined> => {
  const stage = String(headers[letterHeaders.stage]);
  const edge = edgesOf(edges).find(({ name }) => name === stage);
  const kept = edge === undefined ? undefined : opened(value, edge.name, keyring);
  if (edge === undefined || kept === undefined) return undefined;
  const body = Buffer.from(kept.body, "base64");
  const arrival: Arrival = {
    receivedAt: kept.received_at,
    sender: kept.address ?? "",
    address: kept.address,
    header: (name) => kept.headers[name],
  };
  const again = (why: RefusalReason): OutputMessage => {
    const letter = refusedLetter(edge, { clientId: kept.client_id, arrival, body }, why, keyring);
    return { ...letter, headers: { ...letter.headers, ...carried(headers), [letterHeaders.letter]: root } };
  };
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

export const unknownClient: RefusalReason = { code: "unknown_client", message: "cid names no client that is in use" };
export const whyOf = (error: unknown): RefusalReason => {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  if (typeof code !== "string" || typeof message !== "string") throw error;
  return { code, message };
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

/**
 * Keeps the letter's headers, so that the count of attempts continues and the first failure is
 * preserved.
 */
const carried = (headers: InputMessage["headers"]): Record<string, string> => ({
  [letterHeaders.attempt]: String(Number(headers[letterHeaders.attempt]?.toString() ?? 0) + 1),
  [letterHeaders.firstFailedAt]: String(headers[letterHeaders.firstFailedAt] ?? ""),
});

const opened = (value: Buffer | null, edge: string, keyring: Keyring): StoredRefusal | undefined => {
  const text = value?.toString("latin1") ?? "";
  if (!text.startsWith("sealed:")) return undefined;
  try {
    return JSON.parse(unseal(text, place(edge), keyring)) as StoredRefusal;
  } catch {
    return undefined;
  }
};
