// Rules for any JSON inside an event, whatever the fields mean: size, depth, keys, texts and
// numbers. Also cuts texts that are too long.
import { isPersonalKey } from "../../domain/personal/personal-data.ts";
import { refuse } from "./refuse.ts";

/** The limits of docs/design/contracts.md, "Limits". The event itself is level 1. */
const MAX_DEPTH = 32;
export const MAX_KEYS = 1_000;
const MAX_TEXT = 65_536;
export const MAX_EVENT_BYTES = 1_048_576;
/**
 * JSON needs at most six bytes for one UTF-16 unit (a \u escape), so an event below this length
 * always fits and need not be measured.
 */
const SURELY_FITS = Math.floor(MAX_EVENT_BYTES / 6);

/**
 * Properties of the texts of a whole body, found before it is parsed. Each one saves a check of
 * every text.
 */
export interface Texts {
  /** In valid UTF-8, only a \u escape can produce U+0000 or a lone surrogate. */
  readonly mayBeBroken: boolean;
  /**
   * True if the body contains an @, plain or as %40. Without one, no text can look like an e-mail
   * address.
   */
  readonly mayHoldEmail: boolean;
}
export const textsOf = (body: string): Texts => {
  // Some libraries escape every non-ASCII letter, so only these particular escapes count. An escape
  // may also encode an @.
  const hasEscapes = body.includes("\\u");
  return {
    mayBeBroken: hasEscapes && (body.includes("\\u0000") || body.includes("\\ud") || body.includes("\\uD")),
    mayHoldEmail: hasEscapes || body.includes("@") || body.includes("%40"),
  };
};
const holdsAt = (text: string): boolean => text.includes("@") || text.includes("%40");

/** Results of the walk, so that events without special content need no second walk. */
export interface Shape {
  /** A lower bound of the event's length in JSON characters. */
  size: number;
  keys: number;
  /** True if a key names personal data or a text contains an @. */
  mayBePersonal: boolean;
}

type KeyKind = "plain" | "personal" | "forbidden";
/**
 * Keys repeat from event to event, so each key is classified once. The cache is emptied when a
 * sender invents too many keys.
 */
const kinds = new Map<string, KeyKind>();
const MAX_KNOWN_KEYS = 10_000;
const MAX_KNOWN_KEY_LENGTH = 64;

const kindOf = (key: string): KeyKind => {
  const known = kinds.get(key);
  if (known !== undefined) return known;
  const kind: KeyKind =
    key === "__proto__" || key === "constructor" || key === "prototype"
      ? "forbidden"
      : isPersonalKey(key) || holdsAt(key)
        ? "personal"
        : "plain";
  if (key.length <= MAX_KNOWN_KEY_LENGTH) {
    if (kinds.size >= MAX_KNOWN_KEYS) kinds.clear();
    kinds.set(key, kind);
  }
  return kind;
};

const checkText = (text: string, path: string, texts: Texts, shape: Shape): void => {
  if (text.length > MAX_TEXT) refuse("bad_text", path, `is longer than ${MAX_TEXT} characters: shorten it`);
  if (texts.mayBeBroken && (text.includes("\0") || !(text as unknown as WellFormed).isWellFormed()))
    refuse("bad_text", path, "holds U+0000 or half of a surrogate pair: remove it");
  shape.size += text.length + 3;
  if (texts.mayHoldEmail && holdsAt(text)) shape.mayBePersonal = true;
};
/** Methods of ES2024, which every supported Node version has. */
interface WellFormed {
  isWellFormed: () => boolean;
}

const walk = (value: unknown, path: string, depth: number, texts: Texts, shape: Shape): void => {
  if (typeof value === "string") {
    checkText(value, path, texts, shape);
    return;
  }
  if (typeof value === "number") {
    shape.size += 2;
    if (!Number.isFinite(value)) refuse("bad_number", path, "is too large for a number: send it as text");
    return;
  }
  if (typeof value !== "object" || value === null) {
    shape.size += 5;
    return;
  }
  if (depth > MAX_DEPTH) refuse("too_deep", path, `is nested deeper than ${MAX_DEPTH} levels: flatten it`);
  if (Array.isArray(value)) {
    shape.size += 2;
    for (const item of value) walk(item, path, depth + 1, texts, shape);
    return;
  }
  shape.size += 2;
  for (const key in value) {
    shape.keys += 1;
    if (shape.keys > MAX_KEYS) refuse("too_many_keys", path, `the event has more than ${MAX_KEYS} keys: send fewer`);
    const kind = kindOf(key);
    if (kind === "forbidden") refuse("bad_key", path, `the key ${key} is not allowed: rename it`);
    if (kind === "personal") shape.mayBePersonal = true;
    if (texts.mayBeBroken || key.length > MAX_TEXT) checkText(key, path, texts, shape);
    else shape.size += key.length + 4;
    const held = (value as Record<string, unknown>)[key];
    // Most values are ordinary strings and numbers. They are checked inline, because a call would
    // have to build their path first.
    if (typeof held === "string" && !texts.mayBeBroken && held.length <= MAX_TEXT) {
      shape.size += held.length + 3;
      if (texts.mayHoldEmail && !shape.mayBePersonal && holdsAt(held)) shape.mayBePersonal = true;
    } else if (typeof held === "number" && Number.isFinite(held)) shape.size += 2;
    else walk(held, path === "" ? key : `${path}.${key}`, depth + 1, texts, shape);
  }
};

/**
 * Checks an event in one walk. Refuses it with too_deep, too_many_keys, bad_key, bad_text,
 * bad_number or event_too_large.
 */
export const checkShape = (event: object, texts: Texts): Shape => {
  const shape: Shape = { size: 0, keys: 0, mayBePersonal: false };
  walk(event, "", 1, texts, shape);
  if (shape.size > SURELY_FITS && new TextEncoder().encode(JSON.stringify(event)).length > MAX_EVENT_BYTES)
    refuse("event_too_large", null, `the event is larger than ${MAX_EVENT_BYTES} bytes: send less in props`);
  return shape;
};

/**
 * Never cuts inside a surrogate pair, because every store refuses half of one. Returns a copy,
 * because a slice keeps the whole text in memory for as long as the slice is remembered
 * (domain/memo.ts).
 */
export const cut = (text: string, length: number): string => {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  const part = text.slice(0, last >= 0xd8_00 && last <= 0xdb_ff ? length - 1 : length);
  return Buffer.from(part, "utf16le").toString("utf16le");
};
