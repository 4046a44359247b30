// Records whose fields are read from the bytes of the log on demand.
import { itemsAt, NOWHERE, numberAt, type Place, type RecordPlace, textAt } from "./scan.ts";

/** Makes the view of a record whose positions are in `places`, from `at` on. */
export type MakeView = (bytes: Buffer, places: Int32Array, at: number) => object;

class View {
  readonly #bytes: Buffer;
  readonly #places: Int32Array;
  readonly #at: number;
  /** The records in it that were read so far. */
  #known: (object | undefined)[] | undefined;
  constructor(bytes: Buffer, places: Int32Array, at: number) {
    this.#bytes = bytes;
    this.#places = places;
    this.#at = at;
  }

  static reads(place: Place): (this: View) => unknown {
    const { slot, kind } = place;
    if (kind !== "text" && kind !== "number")
      return function (this: View) {
        const pos = this.#places[this.#at + slot]!;
        return pos === NOWHERE ? null : valueAt(place, this.#bytes, pos, this.#places, this.#at);
      };
    // Texts and numbers are read for every event, so they have a separate loop.
    const read = kind === "text" ? recentText() : numberAt;
    return function (this: View) {
      const pos = this.#places[this.#at + slot]!;
      return pos === NOWHERE ? null : read(this.#bytes, pos);
    };
  }

  static views(place: RecordPlace, n: number, records: number): (this: View) => unknown {
    const { slot } = place;
    const make = viewsOf(place);
    return function (this: View) {
      if (this.#places[this.#at + slot] === NOWHERE) return null;
      // Made at its full size, because an array that grows takes the room of a dozen items.
      this.#known ??= new Array(records);
      let known = this.#known[n];
      if (known === undefined) {
        known = make(this.#bytes, this.#places, this.#at);
        this.#known[n] = known;
      }
      return known;
    };
  }

  static whole(place: RecordPlace): (this: View) => object {
    return function (this: View) {
      return recordAt(place, this.#bytes, this.#places, this.#at);
    };
  }
}

/**
 * The fields are getters of the prototype, so a view reads like the record and is not a copy of it:
 * code that spreads it or compares its own fields must take `toJSON()`. A record in it is the same
 * view each time; all other values are read again.
 */
export const viewsOf = (place: RecordPlace): MakeView => {
  class RecordView extends View {}
  const records = [...place.fields.values()].filter(({ kind }) => kind === "record");
  for (const [name, field] of place.fields) {
    const get = field.kind === "record" ? View.views(field, records.indexOf(field), records.length) : View.reads(field);
    Object.defineProperty(RecordView.prototype, name, { get, enumerable: true });
  }
  Object.defineProperty(RecordView.prototype, "toJSON", { value: View.whole(place) });
  return (bytes, places, at) => new RecordView(bytes, places, at);
};

const recordAt = ({ fields }: RecordPlace, bytes: Buffer, places: Int32Array, at: number): object => {
  const record: Record<string, unknown> = {};
  for (const [name, field] of fields) {
    const pos = places[at + field.slot]!;
    record[name] = pos === NOWHERE ? null : valueAt(field, bytes, pos, places, at);
  }
  return record;
};

/** Up to this length a text is compared with the previous one. */
const SHORT = 16;

/**
 * Reads the texts of one field. Types of events, their sources and countries are few: the previous
 * text is often the same one, and to see that costs a quarter of making it.
 */
export const recentText = (): ((bytes: Buffer, pos: number) => string) => {
  const known = new Uint8Array(SHORT);
  let text = "";
  /** The length as Avro writes it: twice the length. */
  let head = 0;
  return (bytes, pos) => {
    const given = bytes[pos]!;
    if (given > 2 * SHORT) return textAt(bytes, pos);
    const length = given >> 1;
    let n = 0;
    if (given === head) while (n < length && bytes[pos + 1 + n] === known[n]) n++;
    else n = -1;
    if (n === length) return text;
    text = textAt(bytes, pos);
    head = given;
    for (n = 0; n < length; n++) known[n] = bytes[pos + 1 + n]!;
    return text;
  };
};

const valueAt = (place: Place, bytes: Buffer, pos: number, places: Int32Array, at: number): unknown => {
  switch (place.kind) {
    case "text":
      return textAt(bytes, pos);
    case "number":
      return numberAt(bytes, pos);
    case "amount":
      return BigInt(numberAt(bytes, pos));
    case "flag":
      return bytes[pos] !== 0;
    case "enum":
      return place.symbols[numberAt(bytes, pos)];
    case "fixed":
      return Buffer.from(bytes.subarray(pos, pos + place.size));
    case "record":
      return recordAt(place, bytes, places, at);
    case "list":
      return itemsAt(place, bytes, pos, (item, itemPlaces) => {
        const itemPos = itemPlaces[item.slot]!;
        return itemPos === NOWHERE ? null : valueAt(item, bytes, itemPos, itemPlaces, 0);
      });
  }
};
