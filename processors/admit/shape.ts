// processors/admit/shape.ts - the rules that hold for any JSON inside an event, whatever its names mean: size, depth, keys, text, numbers.
import { isPersonalKey } from "../personal-data.ts";
import { refuse } from "./refuse.ts";

/** Limits of contracts.md 1. The event itself is level 1. */
const MAX_DEPTH = 32;
const MAX_KEYS = 1_000;
const MAX_TEXT = 65_536;
const MAX_EVENT_BYTES = 1_048_576;
/** JSON writes one UTF-16 unit in at most six bytes (a \u escape), so below this no event can be too large and none needs measuring. */
const SURELY_FITS = Math.floor(MAX_EVENT_BYTES / 6);

/** What was found on the way, so that events without any of it are not walked again. */
export interface Shape {
  /** At least about this many characters of JSON. */
  size: number;
  keys: number;
  /** A key that names personal data, or a text with an @ in it. */
  mayBePersonal: boolean;
}

type KeyKind = "plain" | "personal" | "forbidden";
/** Keys repeat from event to event; what a key is, is decided once. Emptied when a sender makes up too many. */
const kinds = new Map<string, KeyKind>();
const MAX_KNOWN_KEYS = 10_000;
const MAX_KNOWN_KEY_LENGTH = 64;

const kindOf = (key: string): KeyKind => {
  const known = kinds.get(key);
  if (known !== undefined) return known;
  const kind: KeyKind =
    key === "__proto__" || key === "constructor" || key === "prototype" ? "forbidden" : isPersonalKey(key) ? "personal" : "plain";
  if (key.length <= MAX_KNOWN_KEY_LENGTH) {
    if (kinds.size >= MAX_KNOWN_KEYS) kinds.clear();
    kinds.set(key, kind);
  }
  return kind;
};

const checkText = (text: string, path: string, hasEscapes: boolean, shape: Shape): void => {
  if (text.length > MAX_TEXT) refuse("bad_text", path, `is longer than ${MAX_TEXT} characters: shorten it`);
  if (hasEscapes && (text.includes("\0") || !(text as unknown as WellFormed).isWellFormed()))
    refuse("bad_text", path, "holds U+0000 or half of a surrogate pair: remove it");
  shape.size += text.length + 3;
  if (text.includes("@") || text.includes("%40")) shape.mayBePersonal = true;
};
/** ES2024; every supported Node has it. */
interface WellFormed {
  isWellFormed: () => boolean;
}

const walk = (value: unknown, path: string, depth: number, hasEscapes: boolean, shape: Shape): void => {
  if (typeof value === "string") {
    checkText(value, path, hasEscapes, shape);
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
    for (const item of value) walk(item, path, depth + 1, hasEscapes, shape);
    return;
  }
  shape.size += 2;
  for (const key in value) {
    shape.keys += 1;
    if (shape.keys > MAX_KEYS) refuse("too_many_keys", path, `the event has more than ${MAX_KEYS} keys: send fewer`);
    const kind = kindOf(key);
    if (kind === "forbidden") refuse("bad_key", path, `the key ${key} is not allowed: rename it`);
    if (kind === "personal") shape.mayBePersonal = true;
    if (hasEscapes || key.length > MAX_TEXT) checkText(key, path, hasEscapes, shape);
    else shape.size += key.length + 4;
    const held = (value as Record<string, unknown>)[key];
    // most values are ordinary strings and numbers: seen to here, without a call that would have to build their path first
    if (typeof held === "string" && !hasEscapes && held.length <= MAX_TEXT) {
      shape.size += held.length + 3;
      if (!shape.mayBePersonal && (held.includes("@") || held.includes("%40"))) shape.mayBePersonal = true;
    } else if (typeof held === "number" && Number.isFinite(held)) shape.size += 2;
    else walk(held, path === "" ? key : `${path}.${key}`, depth + 1, hasEscapes, shape);
  }
};

/**
 * Walks an event once. `hasEscapes`: the body holds a \u escape somewhere, which is the only way in which U+0000 and lone surrogates get into
 * JSON that is valid UTF-8. Refuses with too_deep, too_many_keys, bad_key, bad_text, bad_number or event_too_large.
 */
export const checkShape = (event: object, hasEscapes: boolean): Shape => {
  const shape: Shape = { size: 0, keys: 0, mayBePersonal: false };
  walk(event, "", 1, hasEscapes, shape);
  if (shape.size > SURELY_FITS && new TextEncoder().encode(JSON.stringify(event)).length > MAX_EVENT_BYTES)
    refuse("event_too_large", null, `the event is larger than ${MAX_EVENT_BYTES} bytes: send less in props`);
  return shape;
};
