// Where the items of a list in a JSON text lie, found by one look at its bytes: so that a large
// body can be weighed before it is parsed, and parsed part by part.
import { BadBody } from "../../stream/flow.ts";

/** One or more whole items, `[from, to)` in bytes. */
export interface Part {
  readonly from: number;
  readonly to: number;
  /** Inside of it. A key is counted by its colon, a value by the comma in front of it. */
  readonly keys: number;
  readonly values: number;
  /** A single item that is longer than a part. */
  readonly isLarge: boolean;
}
export interface Layout {
  /** `[from, to)` of what is inside of the brackets; null where there is no such list. */
  readonly list: { readonly from: number; readonly to: number } | null;
  readonly parts: readonly Part[];
  /** Objects and lists of the whole text. */
  readonly containers: number;
}

/** More than this is refused as soon as it is met. */
export interface Limits {
  readonly items: number;
  readonly containers: number;
  readonly keys: number;
}

/** Of the slowest kind (objects of 120 keys that are all different) this much takes 50 ms. */
const PART_BYTES = 65_536;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const BRACKET = 0x5b;
/** Braces are brackets with this bit: `{` is 0x7b, `}` is 0x7d. */
const BRACE_BIT = 0x20;
const OPENS = 0x7b;
const CLOSES = 0x7d;

/**
 * The list under `name` in the object that `bytes` are; of several the last one, as JSON.parse has
 * it. What is no JSON gets a layout too: its parts and its rest are refused where they are parsed.
 * Throws BadBody for a list without an end, and for more than `most`. Linear: 1.5 ns a byte.
 */
export const layoutOf = (bytes: Uint8Array, name: string, most: Limits): Layout => {
  const parts = new Parts(name, most.items);
  const sought = Buffer.from(`"${name}"`);
  let list: { from: number; to: number } | null = null;
  let depth = 0;
  let containers = 0;
  let keys = 0;
  let values = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    const mark = bytes[at]!;
    if (mark === QUOTE) {
      for (at += 1; at < bytes.length && bytes[at] !== QUOTE; at += 1) if (bytes[at] === BACKSLASH) at += 1;
    } else if (mark === COLON) {
      keys += 1;
      if (keys > most.keys) throw tooMany(`${most.keys} keys`);
    } else if (mark === COMMA) {
      values += 1;
      if (depth === 2 && list !== null && list.to < 0) parts.endItem(at, keys, values);
    } else if ((mark | BRACE_BIT) === OPENS) {
      containers += 1;
      if (containers > most.containers) throw tooMany(`${most.containers} objects and lists`);
      depth += 1;
      if (depth === 2 && mark === BRACKET && isUnder(sought, bytes, at)) {
        list = { from: at + 1, to: -1 };
        parts.begin(at + 1, keys, values);
      }
    } else if ((mark | BRACE_BIT) === CLOSES) {
      depth -= 1;
      if (depth !== 1 || list === null || list.to >= 0) continue;
      list.to = at;
      parts.end(at, keys, values);
    }
  }
  if (list !== null && list.to < 0) throw new BadBody("bad_json", "", "the body is not JSON: its list has no end");
  return { list, parts: parts.found, containers };
};

const tooMany = (what: string): BadBody =>
  new BadBody("body_too_large", "", `the body has more than ${what}: send smaller batches`);

/** Whether the bracket at that place is the value of the key. */
const isUnder = (key: Uint8Array, bytes: Uint8Array, bracket: number): boolean => {
  let at = beforeSpace(bytes, bracket - 1);
  if (bytes[at] !== COLON) return false;
  at = beforeSpace(bytes, at - 1);
  return key.every((byte, n) => bytes[at - key.length + 1 + n] === byte);
};
const beforeSpace = (bytes: Uint8Array, from: number): number => {
  let at = from;
  while (at >= 0 && bytes[at]! <= 0x20) at -= 1;
  return at;
};

/** Gathers items until they fill a part; a large one is a part of its own. */
class Parts {
  found: Part[] = [];
  items = 0;
  readonly #name: string;
  readonly #most: number;
  #from = 0;
  #keys = 0;
  #values = 0;
  /** Of the item that is being read. */
  #itemFrom = 0;
  #itemKeys = 0;
  #itemValues = 0;

  constructor(name: string, most: number) {
    this.#name = name;
    this.#most = most;
  }

  begin(from: number, keys: number, values: number): void {
    this.found = [];
    this.items = 0;
    this.#startPart(from, keys, values);
    this.#startItem(from, keys, values);
  }

  /** At the comma or the bracket behind an item. */
  endItem(at: number, keys: number, values: number): void {
    this.items += 1;
    if (this.items > this.#most) {
      const detail = `${this.#name} holds more than ${this.#most} items: send 1 to ${this.#most}`;
      throw new BadBody(`bad_${this.#name}`, `/${this.#name}`, detail);
    }
    const isLarge = at - this.#itemFrom > PART_BYTES;
    if (isLarge && this.#from < this.#itemFrom) this.#cut(this.#itemFrom - 1, this.#itemKeys, this.#itemValues);
    this.#startItem(at + 1, keys, values);
    if (isLarge || at - this.#from >= PART_BYTES) this.#cut(at, keys, values, isLarge);
  }

  end(at: number, keys: number, values: number): void {
    this.endItem(at, keys, values);
    if (this.#from <= at) this.#cut(at, keys, values);
  }

  #startItem(from: number, keys: number, values: number): void {
    this.#itemFrom = from;
    this.#itemKeys = keys;
    this.#itemValues = values;
  }

  #startPart(from: number, keys: number, values: number): void {
    this.#from = from;
    this.#keys = keys;
    this.#values = values;
  }

  #cut(to: number, keys: number, values: number, isLarge = false): void {
    this.found.push({ from: this.#from, to, keys: keys - this.#keys, values: values - this.#values, isLarge });
    this.#startPart(to + 1, keys, values);
  }
}
