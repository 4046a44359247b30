// Makes the columns of a block from the bytes of the log: a text is copied, a number is read once,
// and no object is made of an event.
import type { Recorded } from "../../stream/flow.ts";
import { EventView } from "../avro/recorded-view.ts";
import { type ListPlace, NOWHERE, numberAt, type Place, pastNumber, type RecordPlace, textAt } from "../avro/scan.ts";
import { Block } from "./block.ts";
import type { DeclaredColumn } from "./columns.ts";
import { type Kind, kinds, type Plain, write64 } from "./kinds.ts";
import type { Source } from "./sources.ts";

/** This many events fit into the cache of a core together with their columns. */
const CHUNK = 256;
const SMALL = 16 * 1024;
const LAST_ASCII = 0x7f;
const IS_NULL = 1;

/** Writes the value that begins at `pos`; false for a value that the column cannot hold. */
type WriteValue = (to: Block, bytes: Buffer, pos: number) => boolean;

interface Chunk {
  count: number;
  readonly views: EventView<any>[];
  /** For each condition, whether it holds for each event. */
  readonly conditions: ReadonlyMap<(event: Recorded<any>) => boolean, Uint8Array>;
}

/** The part of a column that is written so far. */
interface ColumnData {
  /** Which values are null, or where each list ends. */
  readonly marks: Block;
  readonly values: Block;
  /**
   * The number of null events so far that were not written. If all are null, the column is never
   * written.
   */
  nulls: number;
}
/** Adds the values of a chunk; false if one cannot be held by the column. */
type Add = (to: ColumnData, chunk: Chunk) => boolean;
interface Column {
  readonly declared: DeclaredColumn;
  readonly written: ColumnData;
  readonly add: Add;
}

/**
 * Makes the block of these events, byte for byte the block of their values
 * (infra/clickhouse/native.ts). Null for events that it does not handle: an event that is no view,
 * or a value that its column cannot hold. The bytes are in `block` until it is used again.
 */
export const transcoder = (columns: readonly DeclaredColumn[], sources: Readonly<Record<string, Source<any, any>>>) => {
  const conditions = new Map(
    Object.values(sources).flatMap((source) =>
      "path" in source && source.when !== undefined ? [[source.when, new Uint8Array(CHUNK)]] : [],
    ),
  );
  const chunk: Chunk = { count: 0, views: [], conditions };
  let compiled: { readonly root: RecordPlace; readonly columns: readonly Column[] } | undefined;
  const compiledFor = ({ of: { root } }: EventView): readonly Column[] => {
    if (compiled?.root !== root)
      compiled = { root, columns: columns.map((declared) => columnOf(declared, sources[declared.name]!, root)) };
    return compiled.columns;
  };
  /** Takes up to a chunk of events; false if one of them is no view of the same records. */
  const take = (events: readonly unknown[], start: number): boolean => {
    chunk.count = Math.min(CHUNK, events.length - start);
    for (let n = 0; n < chunk.count; n++) {
      const event = events[start + n]!;
      if (!(event instanceof EventView) || event.of.root !== compiled!.root) return false;
      chunk.views[n] = event;
    }
    for (const [when, holds] of conditions)
      for (let n = 0; n < chunk.count; n++) holds[n] = when(chunk.views[n]!) ? 1 : 0;
    return true;
  };

  return (events: readonly unknown[], block: Block) => {
    const [first] = events;
    if (!(first instanceof EventView)) return null;
    const all = compiledFor(first);
    for (const { written } of all) written.marks.pos = written.values.pos = written.nulls = 0;
    for (let start = 0; start < events.length; start += CHUNK)
      if (!take(events, start) || !all.every(({ written, add }) => add(written, chunk))) return null;
    // An event must not be kept alive because it was written.
    chunk.views.length = 0;
    return joined(
      all.filter(({ written }) => written.nulls < events.length),
      events.length,
      block,
    );
  };
};

const joined = (columns: readonly Column[], rows: number, block: Block) => {
  block.pos = 0;
  block.room(10);
  block.varint(columns.length);
  block.varint(rows);
  for (const { declared, written } of columns) {
    block.text(declared.name);
    block.text(declared.type);
    for (const part of [written.marks, written.values]) {
      block.room(part.pos);
      part.bytes.copy(block.bytes, block.pos, 0, part.pos);
      block.pos += part.pos;
    }
  }
  return { columns: columns.map(({ declared }) => declared.name), bytes: block.bytes.subarray(0, block.pos) };
};

const columnOf = (declared: DeclaredColumn, source: Source<any, any>, root: RecordPlace): Column => ({
  declared,
  written: { marks: new Block(SMALL), values: new Block(SMALL), nulls: 0 },
  add: addOf(declared, source, root),
});

const addOf = ({ name, type }: DeclaredColumn, source: Source<any, any>, root: RecordPlace): Add => {
  const inner = /^Nullable\((.*)\)$/.exec(type)?.[1];
  const plain = (inner ?? type) as Plain;
  if ("make" in source) return addMade(plain, source.make);
  const place = placeOf(root, ["data", ...source.path]);
  if (type === "Array(String)" && place?.kind === "list" && place.items.place.kind === "text") return addLists(place);
  const put = place === undefined ? undefined : putOf(place, plain);
  if (place === undefined || put === undefined)
    throw new Error(`${name} is a column of ${type}, and ${source.path.join(".")} no such value`);
  const size = plain === "String" ? 1 : kinds[plain].size;
  return addValues(place.slot, put, size, inner !== undefined, source.when);
};

const placeOf = (root: RecordPlace, [name, ...rest]: readonly string[]): Place | undefined => {
  const place = root.fields.get(name!);
  if (rest.length === 0) return place;
  return place?.kind === "record" ? placeOf(place, rest) : undefined;
};

/** In every kind a null value is written as `size` zero bytes. */
const addValues =
  (slot: number, put: WriteValue, size: number, isNullable: boolean, when?: (event: Recorded<any>) => boolean): Add =>
  (to, { count, views, conditions }) => {
    const { marks, values } = to;
    const holds = when === undefined ? null : conditions.get(when)!;
    const placeAt = (n: number): number => {
      const { places, first } = views[n]!;
      return holds !== null && holds[n] === 0 ? NOWHERE : places[first + slot]!;
    };
    let n = 0;
    if (isNullable && values.pos === 0) {
      while (n < count && placeAt(n) === NOWHERE) n++;
      to.nulls += n;
      if (n === count) return true;
      putNulls(to, size);
    }
    marks.room(count);
    values.room(count * size);
    for (; n < count; n++) {
      const pos = placeAt(n);
      if (isNullable) marks.bytes[marks.pos++] = pos === NOWHERE ? IS_NULL : 0;
      if (pos !== NOWHERE) {
        if (!put(values, views[n]!.bytes, pos)) return false;
        values.room(size);
      } else if (isNullable) putZeros(values, size);
      else return false;
    }
    return true;
  };

/** Writes the nulls that were left out so far. */
const putNulls = ({ marks, values, nulls }: ColumnData, size: number): void => {
  marks.room(nulls);
  marks.bytes.fill(IS_NULL, 0, nulls);
  marks.pos = nulls;
  putZeros(values, nulls * size);
};
const putZeros = (to: Block, count: number): void => {
  to.room(count);
  to.bytes.fill(0, to.pos, to.pos + count);
  to.pos += count;
};

const addMade =
  (type: Plain, make: (event: Recorded<any>) => unknown): Add =>
  ({ values }, { count, views }) => {
    for (let n = 0; n < count; n++) {
      const value = make(views[n]!);
      if (type === "String") {
        if (typeof value !== "string") return false;
        values.text(value);
      } else if (!putKind(values, kinds[type], value)) return false;
    }
    return true;
  };

const addLists =
  ({ slot }: ListPlace): Add =>
  ({ marks, values }, { count, views }) => {
    marks.room(8 * count);
    let end = marks.pos === 0 ? 0 : Number(marks.view.getBigUint64(marks.pos - 8, true));
    for (let n = 0; n < count; n++) {
      const { bytes, places, first } = views[n]!;
      let pos = places[first + slot]!;
      for (let left = numberAt(bytes, pos); left > 0; left = numberAt(bytes, pos)) {
        end += left;
        for (pos = pastNumber(bytes, pos); left > 0; left--) {
          putText(values, bytes, pos);
          pos = pastText(bytes, pos);
        }
      }
      write64(marks.view, marks.pos, end);
      marks.pos += 8;
    }
    return true;
  };

const putOf = (place: Place, type: Plain): WriteValue | undefined => {
  if (place.kind === "text" && type === "String") return putText;
  if (place.kind === "text" && type === "UUID") return (to, bytes, pos) => putKind(to, kinds.UUID, textAt(bytes, pos));
  if (place.kind === "enum" && type === "String") return putSymbol(place.symbols);
  if (place.kind === "amount" && type === "Int64") return putAmount;
  if (place.kind === "flag" && type === "Bool") return (to, bytes, pos) => putKind(to, kinds.Bool, bytes[pos] !== 0);
  if (place.kind !== "number" || type === "String") return undefined;
  const kind = kinds[type];
  return (to, bytes, pos) => putKind(to, kind, numberAt(bytes, pos));
};

const putKind = (to: Block, { size, put }: Kind, value: unknown): boolean => {
  to.room(size);
  if (!put(to, value)) return false;
  to.pos += size;
  return true;
};

/** Exact, like every scanned number. */
const putAmount: WriteValue = (to, bytes, pos) => {
  to.room(8);
  write64(to.view, to.pos, numberAt(bytes, pos));
  to.pos += 8;
  return true;
};

const putSymbol = (symbols: readonly string[]): WriteValue => {
  const texts = symbols.map((symbol) => {
    const block = new Block(3 * symbol.length + 5);
    block.text(symbol);
    return block.bytes.subarray(0, block.pos);
  });
  return (to, bytes, pos) => {
    const text = texts[numberAt(bytes, pos)]!;
    to.room(text.length);
    to.bytes.set(text, to.pos);
    to.pos += text.length;
    return true;
  };
};

/**
 * ASCII is copied unchanged. Any other text is read and written, so that bytes that are not UTF-8
 * become the same as in a row of values.
 */
const putText: WriteValue = (to, bytes, pos) => {
  const start = pastNumber(bytes, pos);
  const length = numberAt(bytes, pos);
  to.room(length + 5);
  const before = to.pos;
  to.varint(length);
  const into = to.bytes;
  const at = to.pos;
  let all = 0;
  for (let n = 0; n < length; n++) {
    const byte = bytes[start + n]!;
    into[at + n] = byte;
    all |= byte;
  }
  to.pos = at + length;
  if (all <= LAST_ASCII) return true;
  to.pos = before;
  to.text(textAt(bytes, pos));
  return true;
};

const pastText = (bytes: Buffer, pos: number): number => pastNumber(bytes, pos) + numberAt(bytes, pos);
