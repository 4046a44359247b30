// The edge of POST /ingest/batch: it reads a body of up to 10,000 events, turns them into log
// records and answers for each event separately.
import { isAscii, isUtf8 } from "node:buffer";
import type { EventReceived } from "../../schemas/generated.ts";
import { type Admission, type Arrival, BadBody } from "../../stream/flow.ts";
import { admitEvent } from "./event.ts";
import { type Layout, layoutOf, type Part } from "./json-list.ts";
import { type RequestFacts, requestTerms, type Terms } from "./request-terms.ts";
import { MAX_EVENT_BYTES, MAX_KEYS, type Texts, textsOf } from "./shape.ts";

export interface BatchBody {
  readonly events: readonly unknown[];
  readonly texts: Texts;
}
/** A body whose events have been located but not parsed yet. */
export interface FoundBatch {
  readonly bytes: Buffer;
  readonly layout: Layout;
  /** An estimate of the heap that parsing needs, in bytes. */
  readonly heapBytes: number;
}

const MAX_EVENTS = 10_000;
/**
 * Upper bounds of what JSON.parse costs, measured with V8 of Node 20: about 4 bytes a character for
 * text, and up to 224 bytes for an object or list (`{"1":0}` is 8 bytes of JSON). So 25 MiB of
 * small objects would need 700 MB, more than the whole heap of a process (512 MB).
 */
const BYTES_A_CHARACTER = 4;
const BYTES_A_CONTAINER = 250;
/**
 * Enough for the largest batch with 40 objects or lists and 100 keys in each event. Keys are
 * limited because JSON.parse cannot share distinct ones, which cost up to 4 us each.
 */
const LIMITS = { items: MAX_EVENTS, containers: 400_000, keys: 1_000_000 };
/** The largest size of everything outside the list. Senders put a version or a time there. */
const MAX_REST_BYTES = 65_536;
/**
 * The largest size of one event as it was sent. An event with every letter escaped is longer than
 * the same event written by JSON.stringify, whose limit is half of this (shape.ts).
 */
const MAX_SENT_BYTES = 2 * MAX_EVENT_BYTES;
/** The most values in one event. Distinct short texts cost 0.5 us each. */
const MAX_VALUES = 150_000;

/**
 * Locates the events without parsing them. Takes linear time, and yields so that other requests can
 * run. Throws BadBody with the place of the problem.
 */
export function* findBatch(body: unknown): Generator<void, FoundBatch> {
  const bytes = bytesOf(body);
  const layout = yield* layoutOf(bytes, "events", LIMITS);
  const { containers, list } = layout;
  if (bytes.length - (list === null ? 0 : list.to - list.from) > MAX_REST_BYTES)
    throw new BadBody(
      "bad_events",
      "/events",
      `the body has more than ${MAX_REST_BYTES} bytes that are no events: send {"events": [...]}`,
    );
  return { bytes, layout, heapBytes: bytes.length * BYTES_A_CHARACTER + containers * BYTES_A_CONTAINER };
}

const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

const bytesOf = (body: unknown): Buffer => {
  if (typeof body === "string") return Buffer.from(body);
  if (!(body instanceof Uint8Array)) throw new BadBody("bad_json", "", 'the body is empty: send {"events": [...]}');
  const given = Buffer.from(body.buffer, body.byteOffset, body.length);
  return given.subarray(given.subarray(0, 3).equals(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK.length : 0);
};

/**
 * A placeholder for the list while the rest of the body is parsed. No sender would write this text.
 */
const LIST = "\u0001the list of events\u0001";

/**
 * Parses the located events. Yields every few milliseconds so that other requests can run. Throws
 * BadBody.
 */
export function* readBatch({ bytes, layout: { list, parts } }: FoundBatch): Generator<void, BatchBody> {
  const rest =
    list === null
      ? textOf(bytes)
      : `${textOf(bytes.subarray(0, list.from - 1))}${JSON.stringify(LIST)}${textOf(bytes.subarray(list.to + 1))}`;
  const parsed = parsedOf(rest);
  const given =
    typeof parsed === "object" && parsed !== null ? (parsed as { readonly events?: unknown }).events : undefined;
  if (given !== LIST && list === null) return checked(given, textsOf(rest));
  // `events` holds another value, or the list belongs to a key that merely ends in "events".
  if (given !== LIST) throw notOneList();
  const events: unknown[] = [];
  const texts = { mayBeBroken: false, mayHoldEmail: false };
  for (const part of parts) {
    const unread = part.isLarge ? unreadable(part) : null;
    if (unread !== null) events.push(unread);
    else {
      const text = textOf(bytes.subarray(part.from, part.to));
      const items = parsedOf(`[${text}]`, part.from) as readonly unknown[];
      if (items.length === 0 && parts.length > 1) throw notJson(part.from);
      for (const item of items) events.push(item);
      const seen = textsOf(text);
      texts.mayBeBroken ||= seen.mayBeBroken;
      texts.mayHoldEmail ||= seen.mayHoldEmail;
    }
    yield;
  }
  return checked(events, texts);
}

const notOneList = (): BadBody =>
  new BadBody("bad_events", "/events", 'events must be one list: send {"events": [...]}');

const checked = (events: unknown, texts: Texts): BatchBody => {
  if (!Array.isArray(events)) throw notOneList();
  if (events.length === 0 || events.length > MAX_EVENTS)
    throw new BadBody("bad_events", "/events", `events holds ${events.length} items: send 1 to ${MAX_EVENTS}`);
  return { events, texts };
};

/** An event that already breaks a limit in its raw form. It is refused without being parsed. */
class UnreadEvent {
  readonly refused: Extract<Admission<never>, { readonly kind: "refused" }>;
  constructor(code: string, message: string) {
    this.refused = { kind: "refused", id: null, refusal: { code, field: null, message, retryable: false } };
  }
}

const unreadable = ({ from, to, keys, values }: Part): UnreadEvent | null => {
  if (keys > MAX_KEYS) return new UnreadEvent("too_many_keys", `the event has more than ${MAX_KEYS} keys: send fewer`);
  if (to - from > MAX_SENT_BYTES)
    return new UnreadEvent("event_too_large", `the event is larger than ${MAX_SENT_BYTES} bytes: send less in props`);
  if (values > MAX_VALUES)
    return new UnreadEvent("event_too_large", `the event has more than ${MAX_VALUES} values: send fewer`);
  return null;
};

/** Decodes whole items, so no multi-byte character is cut. */
const textOf = (bytes: Buffer): string => {
  // Nearly every body is ASCII, and copying ASCII is several times cheaper than decoding it:
  // TextDecoder takes 0.9 us an event.
  if (isAscii(bytes)) return bytes.toString("latin1");
  if (!isUtf8(bytes)) throw new BadBody("bad_json", "", "the body is not valid UTF-8");
  return bytes.toString("utf8");
};

const notJson = (at: number | null): BadBody =>
  new BadBody("bad_json", "", `the body is not JSON${at === null ? "" : ` (near byte ${at})`}`);

const parsedOf = (text: string, from?: number): unknown => {
  try {
    return JSON.parse(text);
  } catch (problem) {
    // The message quotes the body, which may hold personal data, so only the position is passed on.
    const position = /position (\d+)/.exec((problem as Error).message)?.[1];
    throw notJson(position === undefined ? (from ?? null) : (from ?? 0) + Number(position));
  }
};

/** The facts of an edge about the holder of the token. */
export interface BatchFacts extends RequestFacts {
  /**
   * Visitors' own devices use this token, so the address and browser of the request are the
   * visitor's.
   */
  readonly isClientSide: boolean;
  /**
   * The batch id under which receipts find the events of this request (batch-id.ts). Absent where
   * there are no receipts.
   */
  readonly batchId?: string;
}

/**
 * Takes the raw bytes of a body (UTF-8 JSON) and reads them at once, or takes the result of
 * `readBatch`, which the host uses to read a body part by part. Throws BadBody with the place of
 * the problem.
 */
export const acceptsBatch = (body: unknown): BatchBody => {
  if (isRead(body)) return body;
  return resultOf(readBatch(resultOf(findBatch(body))));
};

const resultOf = <T>(steps: Iterator<void, T>): T => {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
};

/** Senders only send bytes, so an object here can only come from `readBatch`. */
const isRead = (body: unknown): body is BatchBody =>
  typeof body === "object" && body !== null && "events" in body && "texts" in body;

/**
 * Admits the events one by one, so that the edge can serve other requests in between. Pure: the
 * same body, arrival and facts give the same records, so a repeated request counts nothing twice.
 */
export function* admitBatch(
  body: BatchBody,
  arrival: Arrival,
  facts: BatchFacts,
): Generator<Admission<EventReceived>, void> {
  const terms = termsOf(body, arrival, facts);
  for (const event of body.events) yield event instanceof UnreadEvent ? event.refused : admitEvent(event, terms);
}

const termsOf = ({ texts }: BatchBody, arrival: Arrival, facts: BatchFacts): Terms => {
  const { isClientSide, batchId = null } = facts;
  return requestTerms({ texts, source: "batch", isClientSide, batchId }, arrival, facts);
};
