// A refused event of an edge whose senders do not read refusals. The received request is kept,
// encrypted under a key of the installation.

import { deadLetters, isNeverEvent } from "../../../edges/dead-letters.ts";
import type { Keyring } from "../../../infra/runtime/keyring.ts";
import { deadLetterOf, letterHeaders } from "../../../stream/dead-letters.ts";
import type { AnyEdge, Arrival, Recorded, UnixMs } from "../../../stream/flow.ts";
import type { OutputMessage } from "../../../stream/messages.ts";
import { seal, unseal } from "../../access/secrets/seal.ts";

/** A request with a refused part, with the data that a second admission needs. */
export interface RefusedArrival {
  /** The client that the request names, if that client exists. */
  readonly clientId: number | null;
  readonly arrival: Arrival;
  /** A body with only the refused event, or the whole body when it cannot be parsed. */
  readonly body: Uint8Array;
  /** A UUID: a second refusal under the same root belongs to the same letter. */
  readonly root?: string;
  /** The sender has shown no credential. */
  readonly isStranger?: boolean;
}
export interface RefusalReason {
  readonly code: string;
  readonly message: string;
}
/** The stored form; `body` is base64. */
export interface StoredRefusal {
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
/** The beginning of a body that never becomes an event: a person sees what it is. */
const SAMPLE_BYTES = 4_096;
const SENDER = /^(src_\d{1,10}|[a-z]{2,40}) \d{1,10}\n/;
const place = (edge: string): string => `dead letter/${edge}`;

/** What every letter of an edge says, whatever it keeps. */
export const unplaced = (edge: Pick<AnyEdge, "name" | "to">, { code, message }: RefusalReason) => ({
  to: deadLetters({ data: { source: edge.name } } as Recorded<any>),
  stage: edge.name,
  code,
  message,
  // The record never had a position in the log.
  position: { topic: edge.to.name, partition: -1, offset: -1 },
  key: null,
});

/**
 * The record that keeps a refused event; a longer body is cut. No personal data is outside of the
 * encrypted part.
 */
export const refusedLetter = (
  edge: Pick<AnyEdge, "name" | "to">,
  { clientId, arrival, body, root, isStranger = false }: RefusedArrival,
  why: RefusalReason,
  keyring: Keyring,
): OutputMessage => {
  const headers = HEADERS.flatMap((name) => {
    const value = arrival.header(name);
    return value === undefined ? [] : [[name, value.slice(0, 1_024)] as const];
  });
  const most = isNeverEvent(why.code, isStranger) ? SAMPLE_BYTES : mostBytes(edge.name);
  const kept: StoredRefusal = {
    edge: edge.name,
    client_id: clientId,
    received_at: arrival.receivedAt,
    address: arrival.address,
    headers: Object.fromEntries(headers),
    body: Buffer.from(body).subarray(0, most).toString("base64"),
  };
  const letter = {
    ...unplaced(edge, why),
    value: Buffer.from(seal(JSON.stringify(kept), place(edge.name), keyring)),
    headers: {
      ...(clientId !== null && { [letterHeaders.client]: String(clientId) }),
      ...senderIn(edge.name, body),
      ...(isStranger && { [letterHeaders.stranger]: "1" }),
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

export const unknownClient: RefusalReason = { code: "unknown_client", message: "cid names no client that is in use" };
export const whyOf = (error: unknown): RefusalReason => {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown };
  if (typeof code !== "string" || typeof message !== "string") throw error;
  return { code, message };
};

/** Undefined for a record that no edge kept or that cannot be decrypted. */
export const openRefused = (value: Buffer | null, edge: string, keyring: Keyring): StoredRefusal | undefined => {
  const text = value?.toString("latin1") ?? "";
  if (!text.startsWith("sealed:")) return undefined;
  try {
    return JSON.parse(unseal(text, place(edge), keyring)) as StoredRefusal;
  } catch {
    return undefined;
  }
};
