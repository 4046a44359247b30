// Finds the items of a list in a JSON text in one pass over its bytes, so that a large body can be
// measured before it is parsed, and then parsed part by part.
import { BadBody } from "../../stream/flow.ts";

/** One or more whole items: the bytes `[from, to)`. */
export interface Part {
  readonly from: number;
  readonly to: number;
  /**
   * Keys and values inside this part. A key is counted by its colon, a value by the comma before
   * it.
   */
  readonly keys: number;
  readonly values: number;
  /** True if the part is a single item that is longer than a normal part. */
  readonly isLarge: boolean;
}
export interface Layout {
  /**
   * The range `[from, to)` of the bytes between the list's brackets. Null if there is no such list.
   */
  readonly list: { readonly from: number; readonly to: number } | null;
  readonly parts: readonly Part[];
  /** The number of objects and lists in the whole text. */
  readonly containers: number;
}

/** A body that exceeds one of these limits is refused as soon as the limit is reached. */
export interface Limits {
  readonly items: number;
  readonly containers: number;
  readonly keys: number;
}

const PART_BYTES = 65_536;
/** Distinct keys cost JSON.parse up to 4 us each; repeated ones cost almost nothing. */
const PART_KEYS = 2_000;
/** The bytes that are scanned between two yields. This takes about 1.5 ms. */
const PIECE_BYTES = 1_048_576;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const BRACKET = 0x5b;
const END_BRACKET = 0x5d;
/** Setting this bit turns a bracket into a brace: `{` is 0x7b, `}` is 0x7d. */
const BRACE_BIT = 0x20;
const OPENS = 0x7b;
const CLOSES = 0x7d;

/**
 * Finds the list under the key `name` of a JSON object. If the key occurs more than once, the last
 * one counts, as in JSON.parse. Invalid JSON gets a layout too; it is refused later, when its parts
 * are parsed. Throws BadBody for a list without an end and for bodies beyond `most`. Takes linear
 * time, 1.5 ns a byte, and yields after each PIECE_BYTES so that other requests can run.
 */
export function* layoutOf(bytes: Uint8Array, name: string, most: Limits): Generator<void, Layout> {
  const look = new Look(bytes, name, most);
  for (let until = PIECE_BYTES; look.goOn(until) < bytes.length; until += PIECE_BYTES) yield;
  return look.layout();
}

/**
 * One pass over the bytes. The inner loop is not a generator, because V8 runs it half as fast in
 * one.
 */
class Look {
  readonly #bytes: Uint8Array;
  readonly #most: Limits;
  readonly #parts: Parts;
  readonly #sought: Uint8Array;
  #list: { from: number; to: number } | null = null;
  #at = 0;
  #isInText = false;
  #depth = 0;
  #containers = 0;
  #keys = 0;
  #values = 0;

  constructor(bytes: Uint8Array, name: string, most: Limits) {
    this.#bytes = bytes;
    this.#most = most;
    this.#parts = new Parts(name, most.items);
    this.#sought = Buffer.from(`"${name}"`);
  }

  /** Scans up to `until` or to the end of the bytes. Returns where it stopped. */
  goOn(until: number): number {
    const bytes = this.#bytes;
    const end = Math.min(bytes.length, until);
    let keys = this.#keys;
    let values = this.#values;
    let isInText = this.#isInText;
    let at = this.#at;
    for (; at < end; at += 1) {
      const mark = bytes[at]!;
      if (isInText || mark === QUOTE) {
        if (!isInText) at += 1;
        while (at < end && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
        isInText = at >= end;
        if (isInText) break;
      } else if (mark === COLON) {
        keys += 1;
        if (keys > this.#most.keys) throw tooMany(`${this.#most.keys} keys`);
      } else if (mark === COMMA) {
        values += 1;
        if (this.#depth === 2 && this.#list !== null && this.#list.to < 0) this.#parts.endItem(at, keys, values);
      } else if ((mark | BRACE_BIT) === OPENS) this.#open(at, keys, values);
      else if ((mark | BRACE_BIT) === CLOSES) this.#close(at, keys, values);
    }
    this.#keys = keys;
    this.#values = values;
    this.#isInText = isInText;
    this.#at = at;
    return at;
  }

  layout(): Layout {
    if (this.#list !== null && this.#list.to < 0) throw noEnd();
    return { list: this.#list, parts: this.#parts.found, containers: this.#containers };
  }

  #open(at: number, keys: number, values: number): void {
    this.#containers += 1;
    if (this.#containers > this.#most.containers) throw tooMany(`${this.#most.containers} objects and lists`);
    this.#depth += 1;
    if (this.#depth !== 2 || this.#bytes[at] !== BRACKET || !isUnder(this.#sought, this.#bytes, at)) return;
    this.#list = { from: at + 1, to: -1 };
    this.#parts.begin(at + 1, keys, values);
  }

  #close(at: number, keys: number, values: number): void {
    this.#depth -= 1;
    if (this.#depth !== 1 || this.#list === null || this.#list.to >= 0) return;
    // Neither the parts nor the rest contain this bracket, so it must be checked here.
    if (this.#bytes[at] !== END_BRACKET) throw noEnd();
    this.#list.to = at;
    this.#parts.end(at, keys, values);
  }
}

const noEnd = (): BadBody => new BadBody("bad_json", "", "the body is not JSON: its list has no end");
const tooMany = (what: string): BadBody =>
  new BadBody("body_too_large", "", `the body has more than ${what}: send smaller batches`);

/** True if the bracket at this place opens the value of the key. */
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

/** Collects items into parts. A large item becomes a separate part. */
class Parts {
  found: Part[] = [];
  items = 0;
  readonly #name: string;
  readonly #most: number;
  #from = 0;
  #keys = 0;
  #values = 0;
  /** The start and counts of the current item. */
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

  /** Called at the comma or bracket after an item. */
  endItem(at: number, keys: number, values: number): void {
    this.items += 1;
    if (this.items > this.#most) {
      const detail = `${this.#name} holds more than ${this.#most} items: send 1 to ${this.#most}`;
      throw new BadBody(`bad_${this.#name}`, `/${this.#name}`, detail);
    }
    const isLarge = at - this.#itemFrom > PART_BYTES;
    if (isLarge && this.#from < this.#itemFrom) this.#cut(this.#itemFrom - 1, this.#itemKeys, this.#itemValues);
    this.#startItem(at + 1, keys, values);
    if (isLarge || at - this.#from >= PART_BYTES || keys - this.#keys >= PART_KEYS)
      this.#cut(at, keys, values, isLarge);
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
