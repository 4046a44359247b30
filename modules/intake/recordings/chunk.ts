// One chunk of a recording as browsers send it: parses and checks it, and removes what must never
// be recorded.
import { isUtf8 } from "node:buffer";
import { BadBody, type UnixMs } from "../../../stream/flow.ts";

export interface Chunk {
  readonly clientId: number;
  /** The device, as the page names it. */
  readonly did: string;
  readonly sessionId: string;
  /** A page view of the visit, and the number of the chunk within it. */
  readonly page: string;
  readonly seq: number;
  /** The visitor's choice; null: none, so the default applies. */
  readonly consent: number | null;
  readonly hasGpc: boolean;
  readonly hasDnt: boolean;
  /** That of GET /config, not yet verified; null: none. */
  readonly ticket: string | null;
  readonly count: number;
  readonly firstAt: UnixMs;
  readonly lastAt: UnixMs;
  /** The recorder's events: a JSON list. */
  readonly events: string;
}

type JsonObject = Readonly<Record<string, unknown>>;
const MAX_EVENTS = 5_000;
/** A page records for half an hour, in chunks of some seconds. */
const MAX_SEQ = 999;
const LARGEST_ID = 2 ** 31 - 1;
const MAX_DID = 256;
/** Ours are shorter. */
const MAX_TICKET = 64;
const SESSION = /^[A-Za-z0-9_-]{8,64}$/;
const PAGE = /^[0-9a-f]{16,32}$/;

/** Numbers of the recorder's protocol (rrweb): an incremental snapshot, and its sources. */
const INCREMENTAL = 3;
const NEVER_RECORDED: ReadonlySet<unknown> = new Set([
  1, // mouse move
  6, // touch move
  9, // canvas
  12, // drag
]);

const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isWhole = (value: unknown, least: number, most: number): value is number =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= most;

const refuse = (field: string, message: string): never => {
  throw new BadBody("bad_chunk", `/${field}`, `${field}: ${message}`);
};

/** Throws BadBody, which names the field and the expected value. */
export const chunkIn = (body: Buffer): Chunk => {
  const given = parsed(body);
  const { cid, did, sid, page, seq, consent = null, gpc, dnt, ticket = null } = given;
  const sent = eventsIn(given.events);
  const times = sent.map(({ timestamp }) => timestamp);
  const events = sent.filter(isRecorded);
  return {
    clientId: isWhole(cid, 1, LARGEST_ID) ? cid : refuse("cid", "send the id of the client, a number"),
    did: isText(did, MAX_DID) ? did : refuse("did", `send the device's id, 1 to ${MAX_DID} characters`),
    sessionId: matches(sid, SESSION) ? sid : refuse("sid", "send the session's id, 8 to 64 of A-Z a-z 0-9 _ -"),
    page: matches(page, PAGE) ? page : refuse("page", "send 16 to 32 hex digits that are new for each page view"),
    seq: isWhole(seq, 0, MAX_SEQ) ? seq : refuse("seq", `send the number of the chunk, 0 to ${MAX_SEQ}`),
    consent: consent === null || isWhole(consent, 0, 255) ? consent : refuse("consent", "send 0 to 255, or nothing"),
    hasGpc: gpc === true,
    hasDnt: dnt === true,
    ticket:
      ticket === null || isText(ticket, MAX_TICKET) ? ticket : refuse("ticket", "send that of /config, or nothing"),
    count: events.length,
    firstAt: Math.min(...times),
    lastAt: Math.max(...times),
    events: written(events),
  };
};

const parsed = (body: Buffer): JsonObject => {
  if (!isUtf8(body)) throw new BadBody("bad_json", "", "the body is not UTF-8");
  let given: unknown;
  try {
    given = JSON.parse(body.toString("utf8"));
  } catch {
    throw new BadBody("bad_json", "", "the body is no JSON: send {cid, did, sid, page, seq, events}");
  }
  if (!isObject(given))
    throw new BadBody("bad_json", "", "the body is no object: send {cid, did, sid, page, seq, events}");
  return given;
};

const isText = (value: unknown, most: number): value is string =>
  typeof value === "string" && value.length > 0 && value.length <= most;
const matches = (value: unknown, pattern: RegExp): value is string => typeof value === "string" && pattern.test(value);

interface RecordedEvent extends JsonObject {
  readonly timestamp: UnixMs;
}
const eventsIn = (events: unknown): readonly RecordedEvent[] => {
  if (!Array.isArray(events) || events.length === 0 || events.length > MAX_EVENTS)
    return refuse("events", `send a list of 1 to ${MAX_EVENTS}`);
  return events.map((event: unknown, n) =>
    isObject(event) && isWhole(event.type, 0, 6) && isWhole(event.timestamp, 1, 8.64e15)
      ? (event as RecordedEvent)
      : refuse(`events/${n}`, "send {type, timestamp, data} as the recorder gives it"),
  );
};

/** Drops events that our recorder never sends, since a modified recorder may send them. */
const isRecorded = ({ type, data }: RecordedEvent): boolean =>
  !(type === INCREMENTAL && isObject(data) && NEVER_RECORDED.has(data.source));

const written = (events: readonly RecordedEvent[]): string => {
  try {
    return JSON.stringify(events);
  } catch {
    return refuse("events", "they are nested too deeply: send what the recorder gives");
  }
};
