// The edge of POST /ingest/batch: a body of up to 10,000 events becomes records of the log, each
// event answered for itself.
import { isAscii, isUtf8 } from "node:buffer";
import type { Identify } from "../../domain/device-id.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { type Admission, type Arrival, BadBody, type UnixMs } from "../../stream/flow.ts";
import { addressOf } from "./address.ts";
import { admitEvent, type Terms } from "./event.ts";
import { type Texts, textsOf } from "./shape.ts";

export interface BatchBody {
  readonly events: readonly unknown[];
  readonly texts: Texts;
}

/** What the edge knows about the holder of the token. */
export interface BatchFacts {
  readonly clientId: number;
  /** Beside the six that every client has. */
  readonly segments: readonly string[];
  readonly consentDefault: number;
  /**
   * The token is used on visitors' own devices, so the request's address and browser are theirs.
   */
  readonly isClientSide: boolean;
  readonly identify: Identify;
  /**
   * What the events of this request are found by (batch-id.ts); left out where there are no
   * receipts.
   */
  readonly batchId?: string;
}

const MAX_EVENTS = 10_000;
const DAY_MS = 24 * 3_600_000;
const RETENTION_MONTHS = 24;
const MAX_USER_AGENT = 1_024;
/** Segments of the specification; a client adds its own. */
const COMMON_SEGMENTS = ["MX", "VD", "DA", "HA", "IT", "NW"] as const;

/**
 * Reads the raw bytes of a body (UTF-8 JSON) and checks its envelope. Throws BadBody with the place
 * of the problem.
 */
export const acceptsBatch = (body: unknown): BatchBody => {
  const text = textOf(body);
  const parsed = parsedOf(text);
  const events =
    typeof parsed === "object" && parsed !== null ? (parsed as { readonly events?: unknown }).events : undefined;
  if (!Array.isArray(events))
    throw new BadBody("bad_events", "/events", 'events must be a list: send {"events": [...]}');
  if (events.length === 0 || events.length > MAX_EVENTS)
    throw new BadBody("bad_events", "/events", `events holds ${events.length} items: send 1 to ${MAX_EVENTS}`);
  return { events, texts: textsOf(text) };
};

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

const textOf = (body: unknown): string => {
  if (typeof body === "string") return body;
  if (!(body instanceof Uint8Array)) throw new BadBody("bad_json", "", 'the body is empty: send {"events": [...]}');
  const given = Buffer.from(body.buffer, body.byteOffset, body.length);
  const bytes = given.subarray(given.subarray(0, 3).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0);
  // Nearly every body is ASCII, and copying one is several times cheaper than decoding it;
  // TextDecoder takes 0.9 us an event.
  if (isAscii(bytes)) return bytes.toString("latin1");
  if (!isUtf8(bytes)) throw new BadBody("bad_json", "", "the body is not valid UTF-8");
  return bytes.toString("utf8");
};

const parsedOf = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch (problem) {
    // the message quotes the body, which may hold personal data: only the position goes out
    const position = /position (\d+)/.exec((problem as Error).message)?.[1];
    throw new BadBody(
      "bad_json",
      "",
      `the body is not JSON${position === undefined ? "" : ` (at character ${position})`}`,
    );
  }
};

/**
 * Pure: the same body, arrival and facts give the same records, so a sender may repeat a request
 * without counting anything twice. Event by event, so that the edge can let others in between.
 */
export function* admitBatch(
  body: BatchBody,
  arrival: Arrival,
  facts: BatchFacts,
): Generator<Admission<EventReceived>, void> {
  const terms = termsOf(body, arrival, facts);
  for (const event of body.events) yield admitEvent(event, terms);
}

const termsOf = (body: BatchBody, arrival: Arrival, facts: BatchFacts): Terms => ({
  source: "batch",
  clientId: facts.clientId,
  isClientSide: facts.isClientSide,
  consentDefault: facts.consentDefault,
  segments: new Set([...COMMON_SEGMENTS, ...facts.segments]),
  identify: facts.identify,
  texts: body.texts,
  receivedAt: arrival.receivedAt,
  oldest: monthsBefore(arrival.receivedAt, RETENTION_MONTHS),
  newest: arrival.receivedAt + DAY_MS,
  address: arrival.address === null ? null : (addressOf(arrival.address) ?? null),
  userAgent: arrival.header("user-agent")?.slice(0, MAX_USER_AGENT) || null,
  batchId: facts.batchId ?? null,
});

/** The same day and time of day so many calendar months earlier (UTC), as retention counts them. */
const monthsBefore = (at: UnixMs, months: number): UnixMs => {
  const date = new Date(at);
  return date.setUTCMonth(date.getUTCMonth() - months);
};
