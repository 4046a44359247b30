// The edge of POST /e and GET /e: what a browser sends, one event or an envelope around several,
// becomes records of the log.
import { isUtf8 } from "node:buffer";
import type { EventReceived } from "../../schemas/generated.ts";
import { type Admission, type Arrival, BadBody } from "../../stream/flow.ts";
import { admitEvent } from "./event.ts";
import { type RequestFacts, requestTerms } from "./request-terms.ts";
import { type Texts, textsOf } from "./shape.ts";

type ConfigOptions = Readonly<Record<string, unknown>>;
export interface PixelBody {
  /** The client that the body names; null: none, or no possible one. */
  readonly clientId: number | null;
  /** Each with what the envelope says for all of them. */
  readonly events: readonly unknown[];
  readonly texts: Texts;
  /** The browser's clock when it sent this, Unix milliseconds; null where it does not say. */
  readonly sentAt: number | null;
}

/** 64 KiB hold a hundred ordinary events; each that is refused is a dead letter of its own. */
const MAX_EVENTS = 100;
/** What an envelope says for all of its events; an event's own wins. */
const SHARED = ["cid", "did", "sid", "consent", "svc_click_id", "url", "ref"] as const;
const LARGEST_ID = 2 ** 31 - 1;

/**
 * The raw bytes of a body of at most 64 KiB, whatever its type says. Throws BadBody for what holds
 * no events: nothing of it can be taken.
 */
export const acceptsPixel = (body: unknown): PixelBody => {
  const text = textOf(body);
  const given = parsed(text);
  const sent = Array.isArray(given.events) ? (given.events as readonly unknown[]) : [given];
  if (sent.length === 0 || sent.length > MAX_EVENTS)
    throw new BadBody("bad_events", "/events", `send 1 to ${MAX_EVENTS} events: {cid, did, events: [...]}`);
  const events = sent.map((event) => eventIn(event, given));
  const first = events[0];
  return {
    clientId: clientIdOf(given.cid ?? (isObject(first) ? first.cid : undefined)),
    events,
    texts: textsOf(text),
    sentAt: Number.isSafeInteger(given.sent_at) ? (given.sent_at as number) : null,
  };
};

/** Pure: the same body, arrival and facts give the same records. */
export function* admitPixel(
  body: PixelBody,
  arrival: Arrival,
  facts: RequestFacts,
): Generator<Admission<EventReceived>, void> {
  const own = {
    texts: body.texts,
    source: "pixel",
    // Every sender is a visitor's own device.
    isClientSide: true,
    batchId: null,
    takesAnyName: true,
    warnings: signalsOf(arrival),
  };
  const terms = requestTerms(own, arrival, facts);
  for (const event of body.events)
    yield isObject(event) && NOT_OF_PAGES.has(String(event.t)) ? notOfPages(event) : admitEvent(event, terms);
}

/**
 * Anyone may write anything to a pixel: a click is what a link says, and money goes back by what
 * the client's own systems say.
 */
const NOT_OF_PAGES: ReadonlySet<string> = new Set(["click", "click_filtered", "refund", "ext_purchase"]);
const notOfPages = (event: ConfigOptions): Admission<EventReceived> => ({
  kind: "refused",
  id: typeof event.event_id === "string" ? event.event_id.slice(0, 128) : null,
  refusal: {
    code: "not_from_pixel",
    field: "t",
    message: "pages do not send this type: give an event of your own another name",
    retryable: false,
  },
});

/** Of the browser, which no script of a page can forge; enrich reads these warnings. */
const signalsOf = ({ header }: Arrival): readonly string[] => [
  ...(header("sec-gpc")?.trim() === "1" ? ["gpc"] : []),
  ...(header("dnt")?.trim() === "1" ? ["dnt"] : []),
];

const textOf = (body: unknown): string => {
  if (!(body instanceof Uint8Array) || body.length === 0)
    throw new BadBody("bad_json", "", "the body is empty: send {cid, did, events: [...]}");
  if (!isUtf8(body)) throw new BadBody("bad_json", "", "the body is not UTF-8");
  return Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8");
};

const parsed = (text: string): ConfigOptions => {
  let given: unknown;
  try {
    given = JSON.parse(text);
  } catch {
    throw new BadBody("bad_json", "", "the body is not JSON");
  }
  if (!isObject(given)) throw new BadBody("bad_json", "", "the body is no object: send {cid, did, events: [...]}");
  return given;
};

const isObject = (value: unknown): value is ConfigOptions =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * The address and the browser are those of the request, whatever a page writes. The name of a
 * custom event stands beside its type or in its props.
 */
const eventIn = (event: unknown, envelope: ConfigOptions): unknown => {
  if (!isObject(event)) return event;
  // It was parsed for us alone: a copy would cost a tenth of its admission.
  const own = event as Record<string, unknown>;
  if (own.ip !== undefined) own.ip = undefined;
  if (own.ua !== undefined) own.ua = undefined;
  if (own.t === "custom") own.t = nameOf(own) ?? own.t;
  if (event !== envelope) for (const key of SHARED) own[key] ??= envelope[key];
  return own;
};

const nameOf = ({ custom_name: beside, props }: ConfigOptions): string | undefined => {
  const name = beside ?? (isObject(props) ? props.custom_name : undefined);
  return typeof name === "string" ? name : undefined;
};

const clientIdOf = (given: unknown): number | null => {
  const id = typeof given === "string" && /^[1-9]\d{0,9}$/.test(given) ? Number(given) : given;
  return Number.isInteger(id) && (id as number) >= 1 && (id as number) <= LARGEST_ID ? (id as number) : null;
};
