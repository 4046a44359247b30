// The edge of POST /e and GET /e: turns one event from a browser, or an envelope with several, into
// records of the log.
import { isUtf8 } from "node:buffer";
import { type Choice, maskOf } from "../../domain/personal/choice.ts";
import type { EventReceived } from "../../schemas/generated.ts";
import { type Admission, type Arrival, BadBody } from "../../stream/flow.ts";
import { admitEvent } from "./event.ts";
import { type RequestFacts, requestTerms } from "./request-terms.ts";
import { type Texts, textsOf } from "./shape.ts";

type ConfigOptions = Readonly<Record<string, unknown>>;
export interface PixelBody {
  /** The client that the body names. Null if it names none or an impossible one. */
  readonly clientId: number | null;
  /** The events, each with the shared fields of the envelope filled in. */
  readonly events: readonly unknown[];
  readonly texts: Texts;
  /** The browser's clock when it sent the body, in Unix milliseconds. Null if not given. */
  readonly sentAt: number | null;
}

/**
 * 64 KiB hold a hundred ordinary events. The limit matters because each refused event becomes a
 * dead letter.
 */
const MAX_EVENTS = 100;
/**
 * The fields that an envelope may set for all of its events. A field of the event itself takes
 * precedence.
 */
const SHARED = ["cid", "did", "sid", "consent", "svc_click_id", "url", "ref"] as const;
const LARGEST_ID = 2 ** 31 - 1;

/**
 * Parses the raw bytes of a body of at most 64 KiB, whatever its content type. Throws BadBody if
 * the body contains no events.
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

/** Admits the events of a body. Pure: the same body, arrival and facts give the same records. */
export function* admitPixel(
  body: PixelBody,
  arrival: Arrival,
  facts: RequestFacts,
): Generator<Admission<EventReceived>, void> {
  const own = {
    texts: body.texts,
    source: "pixel",
    // Pixel events always come from the visitor's own device.
    isClientSide: true,
    batchId: null,
    takesAnyName: true,
    warnings: signalsOf(arrival),
  };
  const terms = requestTerms(own, arrival, facts);
  for (const event of body.events) yield admitEvent(resolved(event, facts.consentDefault), terms);
}

const isMask = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= 0xff;
const choiceIn = (value: unknown): Choice | null => {
  if (!isObject(value)) return null;
  const { set = 0, clear = 0 } = value;
  return isMask(set) && isMask(clear) && (set & clear) === 0 ? { set, clear } : null;
};

/**
 * A page that does not know its client's default sends what was granted and what was refused. The
 * other bits are those of the default: of the event's own consent, and of the choice it reports.
 */
const resolved = (event: unknown, byDefault: number): unknown => {
  if (!isObject(event)) return event;
  const own = event as Record<string, unknown>;
  const choice = choiceIn(own.consent);
  if (choice !== null) own.consent = maskOf(choice, byDefault);
  if (own.t !== "consent" || !isObject(own.props) || own.props.mask !== undefined) return own;
  const reported = own.props.set === undefined && own.props.clear === undefined ? null : choiceIn(own.props);
  if (reported !== null) own.props = { ...own.props, mask: maskOf(reported, byDefault) };
  return own;
};

/**
 * Warnings from headers that the browser sets and a page's script cannot forge. The enrich stage
 * reads them.
 */
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
 * Address and browser always come from the request, whatever the page writes. The name of a custom
 * event is a field of the event or one of its props.
 */
const eventIn = (event: unknown, envelope: ConfigOptions): unknown => {
  if (!isObject(event)) return event;
  // Nothing else refers to this parsed object, so it can be changed in place. A copy would cost a
  // tenth of the admission time.
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
