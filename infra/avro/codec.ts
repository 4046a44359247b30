// Makes a topic constant from an Avro schema. An envelope (times, origin, content hash) is in front
// of the record; both are read and written synchronously.
import { hash } from "node:crypto";
import type { Type } from "avsc";
import type { Position, Recorded, Topic } from "../../stream/flow.ts";
import { UnreadableRecord } from "../../stream/wire.ts";
import { typeOf } from "./avro.ts";

const HASH_BYTES = 16;
const headFields = [
  { name: "at", type: "long", doc: "event time, Unix milliseconds" },
  { name: "received_at", type: "long", doc: "when an edge took the event" },
  {
    name: "origin",
    type: [
      "null",
      {
        type: "record",
        name: "Origin",
        namespace: "tributary",
        fields: ["topic", "partition", "offset"].map((name, n) => ({ name, type: ["string", "int", "long"][n] })),
      },
    ],
    default: null,
    doc: "where the event entered its chain, when that is not where it is read",
  },
  {
    name: "content_hash",
    type: ["null", { type: "fixed", name: "ContentHash", namespace: "tributary", size: HASH_BYTES }],
    default: null,
    doc: "start of the SHA-256 of the data that follows, on topics that are checked",
  },
];
const headType = typeOf({ type: "record", name: "Head", namespace: "tributary", fields: headFields });

interface Head {
  readonly at: number;
  readonly received_at: number;
  readonly origin: Position | null;
  readonly content_hash: Buffer | null;
}

const hashOf = (data: Uint8Array): Buffer => hash("sha256", data, "buffer").subarray(0, HASH_BYTES);
const hashRoom = Buffer.alloc(HASH_BYTES);

/**
 * An Avro record is its fields one after the other, so the registered schema (head fields, then
 * `data`) is written and read in two parts. The hash of the data is then taken of one slice, and
 * the envelope is the same for every topic.
 */
export const topic = <T>(declared: {
  readonly name: string;
  readonly keyedBy: string;
  readonly partitions: number;
  readonly checked: boolean;
  readonly record: { readonly name: string; readonly [attribute: string]: unknown };
  readonly idOf: (data: T) => string;
  readonly keyOf: (data: T) => string;
}): Topic<T> => {
  let built: Type | undefined;
  const typeOfData = (): Type => {
    built ??= typeOf(declared.record);
    return built;
  };
  const readers = new WeakMap<object, (body: Buffer, offset: number) => { value: unknown; offset: number }>();

  /**
   * Returns the reader for data that was written with another version of the schema. Its resolver
   * is built once for each version.
   */
  const readerFor = (writer: any) => {
    const known = readers.get(writer);
    if (known !== undefined) return known;
    const dataType = typeOfData();
    const written = typeOf(writer.fields.at(-1).type);
    const resolver = dataType.createResolver(written);
    const reader = (body: Buffer, offset: number) => dataType.decode(body, offset, resolver);
    readers.set(writer, reader);
    return reader;
  };

  const schema = {
    type: "record",
    name: `Recorded${declared.record.name}`,
    namespace: "tributary",
    fields: [...headFields, { name: "data", type: declared.record }],
  };
  return {
    name: declared.name,
    keyedBy: declared.keyedBy,
    partitions: declared.partitions,
    schema,
    idOf: declared.idOf,
    keyOf: declared.keyOf,
    prepare: () => void typeOfData(),
    encode: (event, origin, into, offset) => {
      const head = {
        at: event.at,
        received_at: event.receivedAt,
        origin,
        content_hash: declared.checked ? hashRoom : null,
      };
      const start = headType.encode(head, into, offset);
      if (start < 0) return start;
      const end = (built ?? typeOfData()).encode(event.data, into, start);
      if (end >= 0 && declared.checked) hashOf(into.subarray(start, end)).copy(into, start - HASH_BYTES);
      return end;
    },
    decode: (body, read, writer): Recorded<T> => {
      let head: Head;
      let data: T;
      let start: number;
      let end: number;
      try {
        ({ value: head, offset: start } = headType.decode(body, 0) as { value: Head; offset: number });
        ({ value: data, offset: end } = (
          writer === null ? (built ?? typeOfData()).decode(body, start) : readerFor(writer)(body, start)
        ) as {
          value: T;
          offset: number;
        });
      } catch (cause) {
        throw new UnreadableRecord("unreadable_body", `not a ${declared.record.name}: ${(cause as Error).message}`);
      }
      if (start < 0 || end !== body.length)
        throw new UnreadableRecord(
          "unreadable_body",
          `not a ${declared.record.name}: ${end < 0 ? "cut short" : "bytes left over"}`,
        );
      if (head.content_hash !== null && !hashOf(body.subarray(start)).equals(head.content_hash))
        throw new UnreadableRecord(
          "content_hash_mismatch",
          `the content of this ${declared.record.name} is not what was written`,
        );
      return {
        id: declared.idOf(data),
        key: declared.keyOf(data),
        at: head.at,
        receivedAt: head.received_at,
        position: head.origin ?? read,
        data,
      };
    },
  };
};
