// Reads events from the bytes of the log on demand.
import type { Position, Recorded, UnixMs } from "../../stream/flow.ts";
import { layoutOf, NOWHERE, numberAt, type RecordPlace } from "./scan.ts";
import { type MakeView, recentText, viewsOf } from "./view.ts";

/** The parts of a topic that its records need. */
interface TopicRecord<T> {
  readonly schema: object;
  readonly idOf: (data: T) => string;
  readonly keyOf: (data: T) => string;
}
/** The layout that all events of a topic share. */
interface TopicLayout<T> extends TopicRecord<T> {
  /** The layout of the envelope; `data` is one of its fields. */
  readonly root: RecordPlace;
  readonly at: number;
  readonly receivedAt: number;
  readonly origin: {
    readonly slot: number;
    readonly topic: number;
    readonly topicAt: ReturnType<typeof recentText>;
    readonly partition: number;
    readonly offset: number;
  };
  readonly dataOf: MakeView;
}

/** An event with its bytes and the positions of its values in them: `places`, from `first` on. */
export class EventView<T = unknown> implements Recorded<T> {
  readonly of: TopicLayout<T>;
  readonly bytes: Buffer;
  readonly places: Int32Array;
  readonly first: number;
  readonly #read: Position;
  #data: T | undefined;
  constructor(of: TopicLayout<T>, bytes: Buffer, places: Int32Array, first: number, read: Position) {
    this.of = of;
    this.bytes = bytes;
    this.places = places;
    this.first = first;
    this.#read = read;
  }
  get id(): string {
    return this.of.idOf(this.data);
  }
  get key(): string {
    return this.of.keyOf(this.data);
  }
  get at(): UnixMs {
    return numberAt(this.bytes, this.places[this.first + this.of.at]!);
  }
  get receivedAt(): UnixMs {
    return numberAt(this.bytes, this.places[this.first + this.of.receivedAt]!);
  }
  get position(): Position {
    const { origin } = this.of;
    const { bytes, places, first } = this;
    if (places[first + origin.slot] === NOWHERE) return this.#read;
    return {
      topic: origin.topicAt(bytes, places[first + origin.topic]!),
      partition: numberAt(bytes, places[first + origin.partition]!),
      offset: numberAt(bytes, places[first + origin.offset]!),
    };
  }
  get data(): T {
    this.#data ??= this.of.dataOf(this.bytes, this.places, this.first) as T;
    return this.#data;
  }
}

/**
 * Places are taken from one array until it is used up. The array lives as long as one of its
 * events; an array for each event would cost more than its places.
 */
const SLAB_PLACES = 64 * 1024;

const slotOf = ({ fields }: RecordPlace, name: string): number => fields.get(name)!.slot;

/** Null for an event that cannot be read this way. */
export type View<T> = (value: Buffer, from: number, read: Position) => Recorded<T> | null;

/**
 * Returns a function that answers null for events that it does not read, valid or not: bytes that
 * are cut, that were written with another schema, or that carry a hash of their content. Every
 * other event reads as `decode` has it; its `data` is a view (infra/avro/view.ts).
 */
const recordedViews = <T>(topic: TopicRecord<T>): View<T> => {
  const layout = layoutOf(topic.schema);
  if (layout === null) return () => null;
  const { width, root, scan } = layout;
  const origin = root.fields.get("origin") as RecordPlace;
  const known: TopicLayout<T> = {
    ...topic,
    root,
    at: slotOf(root, "at"),
    receivedAt: slotOf(root, "received_at"),
    origin: {
      slot: origin.slot,
      ...{ topic: slotOf(origin, "topic"), topicAt: recentText() },
      ...{ partition: slotOf(origin, "partition"), offset: slotOf(origin, "offset") },
    },
    dataOf: viewsOf(root.fields.get("data") as RecordPlace),
  };
  const contentHash = slotOf(root, "content_hash");
  let slab = new Int32Array(0);
  let next = 0;
  return (value, from, read) => {
    if (next + width > slab.length) {
      slab = new Int32Array(Math.max(SLAB_PLACES, width));
      next = 0;
    }
    const first = next;
    if (scan(value, from, value.length, slab, first) !== value.length) return null;
    if (slab[first + contentHash] !== NOWHERE) return null;
    next += width;
    return new EventView(known, value, slab, first, read);
  };
};

/** All wires of a process share the view of a topic, and its array of places. */
const views = new WeakMap<object, View<any>>();

/**
 * Reads bodies that begin at `from` and were written under the topic's own schema; see
 * `recordedViews` for those that it answers null for.
 */
export const viewOf = <T>(topic: TopicRecord<T>): View<T> => {
  const known = views.get(topic) ?? recordedViews<T>(topic);
  views.set(topic, known);
  return known;
};
