// Records whose fields are read from the bytes of the log when they are asked for.
import { itemsAt, NOWHERE, numberAt, type Place, type RecordPlace, textAt } from "./scan.ts";

/** Of a record whose places lie in `places`, those of its layout from `at` on. */
export type MakeView = (bytes: Buffer, places: Int32Array, at: number) => object;

class View {
  readonly #bytes: Buffer;
  readonly #places: Int32Array;
  readonly #at: number;
  /** The records in it that were asked for. */
  #known: (object | undefined)[] | undefined;
  constructor(bytes: Buffer, places: Int32Array, at: number) {
    this.#bytes = bytes;
    this.#places = places;
    this.#at = at;
  }

  static reads(place: Place): (this: View) => unknown {
    const { slot } = place;
    return function (this: View) {
      const pos = this.#places[this.#at + slot]!;
      return pos === NOWHERE ? null : valueAt(place, this.#bytes, pos, this.#places, this.#at);
    };
  }

  static views(place: RecordPlace, n: number): (this: View) => unknown {
    const { slot } = place;
    const make = viewsOf(place);
    return function (this: View) {
      if (this.#places[this.#at + slot] === NOWHERE) return null;
      this.#known ??= [];
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
 * The fields are getters of the prototype, so a view reads like the record and is no copy of it:
 * what spreads it or compares its own fields has to take `toJSON()`. A record in it is the same
 * view each time, whatever else is read again.
 */
export const viewsOf = (place: RecordPlace): MakeView => {
  class RecordView extends View {}
  let records = 0;
  for (const [name, field] of place.fields) {
    const get = field.kind === "record" ? View.views(field, records++) : View.reads(field);
    Object.defineProperty(RecordView.prototype, name, { get, enumerable: true });
  }
  Object.defineProperty(RecordView.prototype, "toJSON", { value: View.whole(place) });
  return (bytes, places, at) => new RecordView(bytes, places, at);
};

/** The record itself. */
export const recordAt = ({ fields }: RecordPlace, bytes: Buffer, places: Int32Array, at: number): object => {
  const record: Record<string, unknown> = {};
  for (const [name, field] of fields) {
    const pos = places[at + field.slot]!;
    record[name] = pos === NOWHERE ? null : valueAt(field, bytes, pos, places, at);
  }
  return record;
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
